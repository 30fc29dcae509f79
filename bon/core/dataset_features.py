"""Parquet schemas that the `datasets` library reads back with images as images."""

import json
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

BATCH = 64
"""Rows per write; a row may hold ten megabytes of images."""
IMAGE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
"""An image column; the suffix of `path` names the format."""


def with_features(schema: pa.Schema) -> pa.Schema:
    """Return the schema with the metadata from which `datasets` reads its features."""
    features = {field.name: _feature(field.type) for field in schema}
    return schema.with_metadata({"huggingface": json.dumps({"info": {"features": features}})})


def write_rows(
    rows: Iterable[dict[str, Any]], columns: list[tuple[str, pa.DataType]], path: Path
) -> Path:
    """Write rows as Parquet with these columns."""
    schema, rows = with_features(pa.schema(columns)), iter(rows)
    path.parent.mkdir(parents=True, exist_ok=True)
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        while batch := list(islice(rows, BATCH)):
            writer.write_table(pa.Table.from_pylist(batch, schema))
    return path


def _feature(kind: pa.DataType) -> Any:
    if kind == IMAGE:
        return {"_type": "Image"}
    if pa.types.is_list(kind):
        return [_feature(kind.value_type)]  # the form that datasets < 4 reads too
    if pa.types.is_struct(kind):
        return {field.name: _feature(field.type) for field in kind}
    return {"_type": "Value", "dtype": "float64" if kind == pa.float64() else str(kind)}
