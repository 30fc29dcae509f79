"""Rows of a dataset, a few at a time: parquet, JSONL, JSON, or the Hugging Face hub.

Memory does not depend on the size of the dataset, except for a `.json` file, which is one
value. Images stay undecoded bytes.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from bon.benchmarks.base import BadRow
from bon.core.errors import BonError, one_line

BATCH = 16
"""Rows read at once; one MMMU-Pro row can hold ten megabytes of images."""

RawRow = tuple[Path | None, dict[str, Any] | BadRow]
"""The folder that image paths start from, None where the row may name no files; and the row."""


def local_files(path: Path, config: str | None, split: str | None) -> list[Path]:
    """The data files of a dataset on disk, in order.

    In a folder: the file named like `config`, where there is one, or those of the subfolder of
    that name, and those whose name starts with `split`, where any does; parquet before JSONL
    before JSON.
    """
    if path.is_file():
        if path.suffix not in READERS:
            raise BonError(
                f"{path} is neither .parquet, .jsonl nor .json",
                "convert it, e.g. pandas.read_csv(FILE).to_json('data.jsonl', orient='records', "
                "lines=True)",
            )
        return [path]
    if not path.exists():
        written = str(path).replace("\n", "\\n")
        raise BonError(f"no file or folder {written}", "check `path`")
    if config:
        for suffix in READERS:
            if (path / f"{config}{suffix}").is_file():
                return [path / f"{config}{suffix}"]
    folder = path / config if config and (path / config).is_dir() else path
    for ending in ("*.parquet", "*.jsonl", "*.json"):
        files = sorted(file for file in folder.rglob(ending) if not file.name.startswith("."))
        if files:
            folders = sorted({str(file.parent.relative_to(path)) for file in files})
            if len(folders) > 1:
                fix = f"set `config` (or `path`) to one of {', '.join(folders)}"
                raise BonError(f"{path} holds data in several folders", fix)
            return [file for file in files if split and file.name.startswith(split)] or files
    raise BonError(f"no .parquet, .jsonl or .json file in {folder}", "check `path` and `config`")


def local_rows(files: list[Path]) -> Iterator[RawRow]:
    """Rows of these files, one file after the other."""
    for file in files:
        for row in READERS[file.suffix](file):
            yield file.parent, row


def count_rows(file: Path) -> int:
    """Rows of a file, without reading what a parquet file or the lines of JSONL hold."""
    if file.suffix == ".jsonl":
        with file.open("rb") as lines:
            return sum(bool(line.strip()) for line in lines)
    if file.suffix == ".json":
        return sum(1 for _ in _json(file))
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return int(pq.read_metadata(file).num_rows)
    except (pa.ArrowException, OSError) as error:
        raise _torn(file, error) from None


def hub_rows(
    hub: str, config: str | None, split: str | None, revision: str | None, stream: bool
) -> Iterator[RawRow]:
    """Rows of a dataset on the hub; `stream` downloads only what is read and keeps no copy.

    What others uploaded names no file of this machine: a row's image is its bytes.
    """
    _check_name(hub)
    try:
        import datasets
    except ImportError:
        raise BonError(
            f"reading {hub} from the hub needs the package datasets", "pip install 'bon[hub]'"
        ) from None
    try:
        loaded = datasets.load_dataset(
            hub, config, split=split or "test", revision=revision, streaming=stream
        )
        # As arrow, images come as their bytes; as rows they would be decoded one by one.
        for table in loaded.with_format("arrow").iter(batch_size=BATCH):
            for row in table.to_pylist():
                yield None, row
    except Exception as error:  # The hub's own errors, and those of half a dozen libraries.
        raise _unreadable(hub, config, split, revision, error) from None


def hub_files(
    hub: str, split: str | None, revision: str | None, patterns: tuple[str, ...]
) -> Iterator[RawRow]:
    """Rows of a dataset on the hub that keeps its images as files beside them.

    The row's image is then the file's bytes and its name: one of the download and no other.
    """
    _check_name(hub)
    try:
        from huggingface_hub import snapshot_download
    except ImportError:
        raise BonError(
            f"reading {hub} from the hub needs the package huggingface_hub",
            "pip install 'bon[hub]'",
        ) from None
    try:
        folder = hub  # a folder in the hub's layout, as `datasets` takes one too
        if not Path(hub).is_absolute():
            folder = snapshot_download(
                hub, repo_type="dataset", revision=revision, allow_patterns=list(patterns)
            )
        files = local_files(Path(folder), None, split)
    except BonError:
        raise
    except Exception as error:
        raise _unreadable(hub, None, split, revision, error) from None
    for _, row in local_rows(files):
        yield None, row if isinstance(row, BadRow) else _with_images(row, Path(folder))


def _with_images(row: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The row with the bytes of the image file that it names."""
    name = row.get("image")
    if not isinstance(name, str) or Path(name).is_absolute() or ".." in Path(name).parts:
        return row
    for place in (folder / "images" / name, folder / name):
        if place.is_file():
            return {**row, "image": {"bytes": place.read_bytes(), "path": name}}
    return row


def _check_name(hub: str) -> None:
    if "/" not in hub:  # `text`, `csv` and the like would read any file here
        raise BonError(f"hub: {hub!r} is not a dataset of the hub", "write OWNER/NAME")
    if not Path(hub).is_absolute() and Path(hub).exists():
        raise BonError(f"hub: {hub!r} is a folder here, which would be read instead", "use `path`")


def _unreadable(
    hub: str, config: str | None, split: str | None, revision: str | None, error: Exception
) -> BonError:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return BonError(
        f"cannot read {hub} (config {config}, split {split}, revision {revision}) "
        f"from the hub: {lines[0]}",
        "check these names and the network, set HF_TOKEN for a gated dataset, or download "
        "it and give its folder as `path`",
    )


def _parquet(file: Path) -> Iterator[dict[str, Any] | BadRow]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(file, memory_map=True) as reader:
            for batch in reader.iter_batches(batch_size=BATCH):
                yield from batch.to_pylist()
    except (pa.ArrowException, OSError) as error:
        raise _torn(file, error) from None


def _torn(file: Path, error: Exception) -> BonError:
    return BonError(
        f"{file} is not a complete parquet file: {one_line(error)}", "download it again"
    )


def _jsonl(file: Path) -> Iterator[dict[str, Any] | BadRow]:
    with file.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except ValueError as error:
                yield BadRow(f"line-{number}", f"is not JSON: {error}")
                continue
            yield row if isinstance(row, dict) else BadRow(f"line-{number}", "is not an object")


def _json(file: Path) -> Iterator[dict[str, Any] | BadRow]:
    try:
        rows = json.loads(file.read_bytes())
    except ValueError as error:
        raise BonError(f"{file} is not JSON: {error}", "check the file") from None
    if isinstance(rows, dict) and len(rows) == 1:  # {"pairs": [...]} and the like
        (rows,) = rows.values()
    if not isinstance(rows, list):
        raise BonError(f"{file} does not hold a list of rows", "give one list, or use .jsonl")
    for number, row in enumerate(rows, start=1):
        yield row if isinstance(row, dict) else BadRow(f"row-{number}", "is not an object")


READERS: dict[str, Callable[[Path], Iterator[dict[str, Any] | BadRow]]] = {
    ".parquet": _parquet,
    ".jsonl": _jsonl,
    ".json": _json,
}
"""How a file is read, by its suffix."""
