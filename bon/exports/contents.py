"""The contents of a run as exports read them, and all of its tables as Parquet."""

import io
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from PIL import Image, UnidentifiedImageError

from bon.analysis.data.tables import COLUMNS, Tables
from bon.analysis.results import Results
from bon.benchmarks import BENCHMARKS
from bon.core.files import write_atomic
from bon.core.records import ImageRef
from bon.engines.base import ImagePart
from bon.experiment.config import IMPORTED, Card, DatasetSpec
from bon.importing.restore import EXPERIMENT, frozen_experiment
from bon.running.reporting import read_results
from bon.storage.store import Store
from bon.work.run_tables import run_tables
from bon.work.setup import Setup

_SUFFIXES = {"JPEG": "jpg", "MPO": "jpg", "TIFF": "tif", "": "bin"}
RAW_TABLES = ("questions", "candidates", "pairs", "judgements")


@dataclass(frozen=True)
class Contents:
    """An open run; numbers come from its results.json."""

    setup: Setup
    store: Store

    @property
    def directory(self) -> Path:
        """The run directory."""
        return self.store.directory

    @cached_property
    def results(self) -> Results:
        """The results of the analysis."""
        return read_results(self.directory)

    @cached_property
    def tables(self) -> Tables:
        """The tables that the analysis reads."""
        return run_tables(self.setup, self.store)

    @cached_property
    def choices(self) -> pd.DataFrame:
        """The choices of each rewarder (bon.analysis.estimators.picks)."""
        from bon.analysis.data.arrays import read
        from bon.analysis.estimators.picks import choices

        return choices(read(self.tables), self.results)

    def raw(self, table: str) -> Iterator[dict[str, Any]]:
        """Yield rows of one of RAW_TABLES as stored; images are hashes, `meta` is JSON."""
        if table in ("questions", "pairs"):
            for data, leaked in self.store.query(
                f"SELECT data, leaked FROM {table} WHERE active > 0 ORDER BY active"
            ):
                row = json.loads(data)
                yield {**row, "leaked": bool(leaked), "meta": json.dumps(row["meta"])}
            return
        columns = [row[1] for row in self.store.query(f"PRAGMA table_info({table})")]
        for values in self.store.query(f"SELECT * FROM {table} ORDER BY key"):
            yield dict(zip(columns, values, strict=True))


def write_tables(contents: Contents, out: Path) -> list[Path]:
    """Write the raw tables, the analysis tables and the frozen experiment.

    `bon import FOLDER` restores the run from them.
    """
    (out / "analysis").mkdir(parents=True, exist_ok=True)
    paths = [out / f"{table}.parquet" for table in RAW_TABLES]
    for table, path in zip(RAW_TABLES, paths, strict=True):
        pq.write_table(pa.Table.from_pylist(list(contents.raw(table))), path)
    for name in COLUMNS:
        paths.append(out / "analysis" / f"{name}.parquet")
        getattr(contents.tables, name).to_parquet(paths[-1], index=False)
    frozen = yaml.safe_dump(frozen_experiment(contents.setup, contents.store), sort_keys=False)
    write_atomic(out / EXPERIMENT, frozen)
    return [*paths, out / EXPERIMENT]


def load_image(ref: ImageRef) -> ImagePart:
    """Read an image of the store."""
    return ImagePart(ref.sha256, Path(ref.path).read_bytes())


def file_name(image: ImagePart) -> str:
    """Return the hash with the suffix of the image format."""
    try:
        kind = Image.open(io.BytesIO(image.data)).format or ""
    except (UnidentifiedImageError, OSError, Image.DecompressionBombError):
        kind = ""
    return f"{image.sha256}.{_SUFFIXES.get(kind, kind.lower())}"


def name_of(spec: DatasetSpec) -> str:
    """Return the dataset's name in the results."""
    return spec.name or spec.benchmark


def hub_of(spec: DatasetSpec) -> str:
    """Return the dataset of the hub; empty for a file."""
    if spec.path or spec.benchmark == IMPORTED:
        return ""
    return spec.hub or BENCHMARKS[spec.benchmark].hub


def model_id(card: Card) -> tuple[str, str]:
    """Return developer and name of a model of the hub; the developer of others is `unknown`."""
    if re.fullmatch(r"[\w.-]+/[\w.-]+", card.model) and not card.model.startswith("."):
        developer, _, name = card.model.partition("/")
        return developer, name
    plain = re.fullmatch(r"[\w.-]+", card.model)
    return "unknown", card.model if plain else card.name
