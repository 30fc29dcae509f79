"""The contents of a run as exports read them, and all of its tables as Parquet."""

import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image, UnidentifiedImageError

from bon.analysis.data.tables import COLUMNS
from bon.engines.base import ImagePart
from bon.exports.preferences import Preferences
from bon.storage.store import Store
from bon.work.run_tables import run_tables
from bon.work.setup import Setup

_SUFFIXES = {"JPEG": "jpg", "MPO": "jpg", "TIFF": "tif", "": "bin"}
RAW_TABLES = ("questions", "candidates", "pairs", "judgements")


@dataclass(frozen=True)
class Contents:
    """An open run; `preferences`: which training rows to make of it."""

    setup: Setup
    store: Store
    preferences: Preferences


def write_tables(contents: Contents, out: Path) -> list[Path]:
    """Write the raw tables and the analysis tables."""
    (out / "analysis").mkdir(parents=True, exist_ok=True)
    paths = [out / f"{table}.parquet" for table in RAW_TABLES]
    for table, path in zip(RAW_TABLES, paths, strict=True):
        pq.write_table(pa.Table.from_pylist(list(_raw(contents.store, table))), path)
    tables = run_tables(contents.setup, contents.store)
    for name in COLUMNS:
        paths.append(out / "analysis" / f"{name}.parquet")
        getattr(tables, name).to_parquet(paths[-1], index=False)
    return paths


def _raw(store: Store, table: str) -> Iterator[dict[str, Any]]:
    """Yield rows of one of RAW_TABLES as stored; images are hashes, `meta` is JSON."""
    if table in ("questions", "pairs"):
        for data, leaked in store.query(
            f"SELECT data, leaked FROM {table} WHERE active > 0 ORDER BY active"
        ):
            row = json.loads(data)
            yield {**row, "leaked": bool(leaked), "meta": json.dumps(row["meta"])}
        return
    columns = [row[1] for row in store.query(f"PRAGMA table_info({table})")]
    for values in store.query(f"SELECT * FROM {table} ORDER BY key"):
        yield dict(zip(columns, values, strict=True))


def file_name(image: ImagePart) -> str:
    """Return the hash with the suffix of the image format."""
    try:
        kind = Image.open(io.BytesIO(image.data)).format or ""
    except (UnidentifiedImageError, OSError, Image.DecompressionBombError):
        kind = ""
    return f"{image.sha256}.{_SUFFIXES.get(kind, kind.lower())}"
