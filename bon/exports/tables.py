"""All tables of a run as Parquet; `bon import FOLDER` restores the run from them."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from bon.analysis.data.tables import COLUMNS
from bon.core.files import write_atomic
from bon.exports.contents import RAW_TABLES, Contents
from bon.running.imports.restore import EXPERIMENT, frozen_experiment


def write_tables(contents: Contents, out: Path) -> list[Path]:
    """Write the raw tables, the analysis tables and the frozen experiment."""
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
