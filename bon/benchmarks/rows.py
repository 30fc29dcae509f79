"""Rows of a dataset, streamed from Parquet, JSONL, JSON, or the Hugging Face hub.

Memory does not depend on the size of the dataset, except for a `.json` file. Images remain
undecoded bytes.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from bon.benchmarks.base import BadRow
from bon.core.errors import BonError, one_line

BATCH = 16
"""Rows per read; one MMMU-Pro row may hold ten megabytes of images."""

RawRow = tuple[Path | None, dict[str, Any] | BadRow]
"""The base of image paths (None: the row may not name files), and the row."""


def local_files(path: Path, config: str | None, split: str | None) -> list[Path]:
    """Return the data files of a local dataset, in order.

    In a folder: the file or subfolder named `config`, if any, and the subfolder named `split` or
    the files whose names start with it, if any; in the order of `READERS`.
    """
    if path.is_file():
        if path.suffix not in READERS:
            raise BonError(
                f"{path} is neither .parquet, .jsonl, .arrow nor .json",
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
    folder = path
    for name in (config, split):
        folder = folder / name if name and (folder / name).is_dir() else folder
    for suffix in READERS:
        matches = folder.rglob(f"*{suffix}")
        files = sorted(f for f in matches if f.is_file() and not f.name.startswith("."))
        if files:
            folders = sorted({str(file.parent.relative_to(path)) for file in files})
            if len(folders) > 1:
                fix = f"set `config` (or `path`) to one of {', '.join(folders)}"
                raise BonError(f"{path} holds data in several folders", fix)
            return [file for file in files if split and file.name.startswith(split)] or files
    what = "no .parquet, .jsonl, .arrow or .json file"
    raise BonError(f"{what} in {folder}", "check `path` and `config`")


def local_rows(files: list[Path]) -> Iterator[RawRow]:
    """Yield the rows of files."""
    for file in files:
        for row in READERS[file.suffix](file):
            yield file.parent, row


def count_rows(file: Path) -> int:
    """Count the rows of a file without parsing Parquet or JSONL."""
    if file.suffix == ".jsonl":
        with file.open("rb") as lines:
            return sum(bool(line.strip()) for line in lines)
    if file.suffix == ".json":
        return sum(1 for _ in _json(file))
    if file.suffix == ".arrow":
        return sum(batch.num_rows for batch in _batches(file))
    import pyarrow.parquet as pq

    with _whole(file):
        return int(pq.read_metadata(file).num_rows)


def hub_rows(
    hub: str, config: str | None, split: str | None, revision: str | None, stream: bool
) -> Iterator[RawRow]:
    """Yield rows of a dataset on the hub; `stream` downloads only what is read, without a copy.

    Images must be bytes: a remote dataset may not name files of this machine.
    """
    datasets = _library("datasets", hub)
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
    """Yield rows of a dataset on the hub whose images are files of the same download."""
    folder = hub_folder(hub, revision, patterns)
    for _, row in local_rows(local_files(folder, None, split)):
        yield None, row if isinstance(row, BadRow) else _with_images(row, folder)


@cache
def hub_folder(hub: str, revision: str | None, patterns: tuple[str, ...]) -> Path:
    """Download files of a dataset on the hub, once; an absolute `hub` is such a folder."""
    library = _library("huggingface_hub", hub)
    if Path(hub).is_absolute():  # a folder in the hub's layout, as `datasets` takes one too
        return Path(hub)
    try:
        return Path(
            library.snapshot_download(
                hub, repo_type="dataset", revision=revision, allow_patterns=list(patterns)
            )
        )
    except Exception as error:
        raise _unreadable(hub, None, None, revision, error) from None


def _with_images(row: dict[str, Any], folder: Path) -> dict[str, Any]:
    name = row.get("image")
    if not isinstance(name, str) or Path(name).is_absolute() or ".." in Path(name).parts:
        return row
    for path in (folder / "images" / name, folder / name):
        if path.is_file():
            return {**row, "image": {"bytes": path.read_bytes(), "path": name}}
    return row


def _library(name: str, hub: str) -> Any:
    """Import what reads a dataset of the hub, whose name is checked first."""
    if "/" not in hub:  # `text`, `csv` and the like would read any file here
        raise BonError(f"hub: {hub!r} is not a dataset of the hub", "write OWNER/NAME")
    if not Path(hub).is_absolute() and Path(hub).exists():
        raise BonError(f"hub: {hub!r} is a folder here, which would be read instead", "use `path`")
    try:
        return import_module(name)
    except ImportError:
        fix = "pip install 'bon[hub]'"
        raise BonError(f"reading {hub} from the hub needs the package {name}", fix) from None


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
    import pyarrow.parquet as pq

    with _whole(file), pq.ParquetFile(file, memory_map=True) as reader:
        for batch in reader.iter_batches(batch_size=BATCH):
            yield from batch.to_pylist()


def _arrow(file: Path) -> Iterator[dict[str, Any] | BadRow]:
    for batch in _batches(file):
        for start in range(0, batch.num_rows, BATCH):
            yield from batch.slice(start, BATCH).to_pylist()


def _batches(file: Path) -> Iterator[Any]:
    """Read the record batches of a file that `datasets.save_to_disk` wrote."""
    import pyarrow as pa

    with _whole(file), pa.memory_map(str(file)) as source, pa.ipc.open_stream(source) as reader:
        yield from reader


@contextmanager
def _whole(file: Path) -> Iterator[None]:
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError) as error:
        kind, reason = file.suffix.removeprefix("."), one_line(error)
        raise BonError(
            f"{file} is not a complete {kind} file: {reason}", "download it again"
        ) from None


def _jsonl(file: Path) -> Iterator[dict[str, Any] | BadRow]:
    with file.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            if number == 1 and line.startswith(b"\x1f\x8b"):
                raise BonError(f"{file} is compressed by gzip", "decompress it first: gunzip")
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as error:
                yield BadRow(f"line-{number}", f"is not JSON: {error}")
                continue
            yield row if isinstance(row, dict) else BadRow(f"line-{number}", "is not an object")


def _json(file: Path) -> Iterator[dict[str, Any] | BadRow]:
    try:
        rows = json.loads(file.read_bytes())
    except (ValueError, RecursionError) as error:
        raise BonError(f"{file} is not JSON: {error}", "check the file") from None
    if isinstance(rows, dict) and rows and all(map(str.isdecimal, rows)):  # {"0": {...}, "1": ...}
        rows = [*rows.values()]
    elif isinstance(rows, dict) and len(rows) == 1:  # {"pairs": [...]} and the like
        (rows,) = rows.values()
    if not isinstance(rows, list):
        raise BonError(f"{file} does not hold a list of rows", "give one list, or use .jsonl")
    for number, row in enumerate(rows, start=1):
        yield row if isinstance(row, dict) else BadRow(f"row-{number}", "is not an object")


READERS: dict[str, Callable[[Path], Iterator[dict[str, Any] | BadRow]]] = {
    ".parquet": _parquet,
    ".jsonl": _jsonl,
    ".arrow": _arrow,
    ".json": _json,
}
"""Reader of a file by suffix; a folder's files are those of the first suffix that it holds."""
