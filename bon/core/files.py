"""Writes that are whole or absent, the cache folder, and file errors with their fix."""

import errno
import filecmp
import hashlib
import os
import shutil
import sqlite3
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import get_ident

from bon.core.errors import BonError

_PERMISSION = "check the permissions, or use another path"
_SPACE = "free some space, then run the same command: finished rows are kept"
_FIXES = {
    errno.EACCES: _PERMISSION,
    errno.EPERM: _PERMISSION,
    errno.EROFS: "use a path on a writable disk, e.g. with --out",
    errno.ENOSPC: _SPACE,
    errno.EDQUOT: _SPACE,
    errno.ENAMETOOLONG: "use a shorter name",
    errno.EISDIR: "name a file in it",
    errno.ENOTDIR: "name a folder, or a new one",
    errno.EEXIST: "name a folder, or a new one",
    errno.ELOOP: "check the links in the path",
    errno.EMFILE: "raise the limit on open files: ulimit -n 4096",
}


def cache_folder() -> Path:
    """Return bon's folder in the user's cache directory."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "bon"


@contextmanager
def private_files() -> Iterator[None]:
    """Files that this process and those it starts create in here are readable by their owner alone.

    The umask belongs to the process: files of its other threads are private meanwhile, too.
    """
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


class SqliteErrors:
    """Convert the errors of an SQLite file to BonError; `fix` is for one that is damaged.

    One object serves every statement: made anew for each, it would cost as much as they do.
    """

    def __init__(self, path: Path, fix: str) -> None:
        self._path, self._fix = path, fix

    def __enter__(self) -> None:
        """Enter, also inside."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Raise the BonError of an error."""
        if not isinstance(error, sqlite3.DatabaseError):
            return
        path, fix, text = self._path, self._fix, str(error)
        problem = f"{path} is damaged ({text})"
        if "full" in text:
            problem = f"the disk that holds {path.parent} is full"
            fix = "free space and run the same command again: what was committed is kept"
        elif "locked" in text:
            problem, fix = f"{path}: {text}", "end the process that holds it"
        elif isinstance(error, sqlite3.OperationalError):
            problem, fix = f"{path}: {text}", "check the disk and its permissions"
        elif "not a database" in text:
            problem = f"{path} is not a database: nothing in it can be read"
            fix = "put a copy of it back, or move it aside to start anew"
        raise BonError(problem, fix) from None


def read_text(path: Path, most: int = 1_000_000, encoding: str = "utf-8-sig") -> str:
    """Read a text of at most this many bytes, its lines ending in a newline.

    Raises:
        BonError: no such file, no text, larger, or a pipe, which may never be written to.
    """
    try:
        if path.is_fifo() and path.absolute().parts[1] not in (
            "dev",
            "proc",
        ):  # the shell's own are there
            raise BonError(f"{path} is a pipe, not a file", "write what it would hold to a file")
        with path.open("rb") as file:
            content = file.read(most + 1)
    except FileNotFoundError:
        raise BonError(f"no file {path}", "check the path") from None
    except OSError as error:
        raise file_error(error) from None
    if len(content) > most:
        raise BonError(f"{path} has more than {most:,} bytes", "name a smaller file")
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError as error:
        fix = "save it as UTF-8"
        raise BonError(f"{path} is not UTF-8 text (byte {error.start})", fix) from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


def write_atomic(path: Path, content: str | bytes) -> None:
    """Replace a file in one step, so that no reader sees a partial one; its mode is kept."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{get_ident()}.tmp")
    try:
        temporary.touch(mode=0o600)
        temporary.write_bytes(content if isinstance(content, bytes) else content.encode())
        if path.exists():
            shutil.copymode(path, temporary)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


MAX_UNPACKED, MAX_RATIO = 4 * 1024**3, 100
"""Bytes that a file may unpack to, and how many times its own size, where that is above 100 MB."""


@contextmanager
def open_zip(path: Path) -> Iterator[zipfile.ZipFile]:
    """Open a ZIP whose members together unpack to no more than is sound.

    zipfile reads no more of a member than its `file_size`; whoever unpacks one must not, either.
    """
    most = min(MAX_UNPACKED, max(100_000_000, MAX_RATIO * path.stat().st_size))
    with zipfile.ZipFile(path) as archive:
        if (size := sum(member.file_size for member in archive.infolist())) > most:
            problem = f"{path} would unpack to {size / 1e6:,.0f} MB"
            raise BonError(problem, f"at most {most / 1e6:,.0f} MB are read: split it")
        yield archive


def file_hash(path: Path) -> str:
    """Return the SHA-256 of a file's contents."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def file_error(error: OSError) -> BonError:
    """Convert an OSError to a BonError with its fix."""
    name = str(error.filename or "")
    what = f"cannot use {name if len(name) < 200 else name[:100] + '…'}" if name else "stopped"
    reason = error.strerror or type(error).__name__
    if error.errno in (errno.EEXIST, errno.ENOTDIR):
        reason = "it is a file" if Path(name).is_file() else "a file lies where a folder should be"
    return BonError(f"{what}: {reason}", _FIXES.get(error.errno or 0, "check the path"))


@contextmanager
def removed_on_error(folder: Path) -> Iterator[None]:
    """Remove a folder, and parents, that the block made if it raises."""
    folder = folder.absolute()
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        yield
    except BaseException:
        if missing:
            shutil.rmtree(missing[-1], ignore_errors=True)
        raise


@contextmanager
def staged(folder: Path, *, replace: bool) -> Iterator[Path]:
    """Yield a temporary folder whose files move into `folder` if the block succeeds.

    Raises:
        BonError: a file there has other contents and `replace` is false; nothing is written.
    """
    nearest = next(one for one in folder.absolute().parents if one.is_dir())
    temporary = Path(tempfile.mkdtemp(prefix=".", suffix=".tmp", dir=nearest))
    try:
        yield temporary
        files = {
            path: folder / path.relative_to(temporary)
            for path in temporary.rglob("*")
            if path.is_file()
        }
        for path, target in files.items():
            if not replace and target.exists() and not filecmp.cmp(path, target, shallow=False):
                raise BonError(
                    f"{target} exists with other contents; nothing was written",
                    "choose another --out, or --replace it",
                )
        for path, target in files.items():
            target.parent.mkdir(parents=True, exist_ok=True)
            path.replace(target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
