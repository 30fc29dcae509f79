"""All tables of a run as Parquet or JSONL; `bon import FOLDER` restores the run from them."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from bon.analysis.data.tables import COLUMNS
from bon.core.files import write_atomic
from bon.exports.contents import RAW_TABLES, Contents
from bon.exports.image_files import write_jsonl
from bon.running.imports.restore import EXPERIMENT, frozen_experiment


def write_tabular(contents: Contents, out: Path, suffix: str) -> list[Path]:
    """Write the raw tables, the analysis tables and the frozen experiment.

    suffix: parquet or jsonl.
    """
    (out / "analysis").mkdir(parents=True, exist_ok=True)
    paths = []
    for table in RAW_TABLES:
        path = out / f"{table}.{suffix}"
        if suffix == "jsonl":
            write_jsonl(contents.raw(table), path)
        else:
            pq.write_table(pa.Table.from_pylist(list(contents.raw(table))), path)
        paths.append(path)
    for name in COLUMNS:
        path = out / "analysis" / f"{name}.{suffix}"
        frame = getattr(contents.tables, name)
        if suffix == "jsonl":
            frame.to_json(path, orient="records", lines=True, force_ascii=False)
        else:
            frame.to_parquet(path, index=False)
        paths.append(path)
    frozen = yaml.safe_dump(frozen_experiment(contents.setup, contents.store), sort_keys=False)
    write_atomic(out / EXPERIMENT, frozen)
    return [*paths, out / EXPERIMENT]
