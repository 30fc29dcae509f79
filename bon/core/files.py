"""Files that are read while they are written, and what goes wrong with files."""

import errno
import os
from pathlib import Path

from bon.core.errors import BonError

_REMEDIES = {
    errno.EACCES: "check who may read and write there, or name another place",
    errno.EPERM: "check who may read and write there, or name another place",
    errno.EROFS: "name a place on a disk that can be written, e.g. with --out",
    errno.ENOSPC: "free some space, then run the same command: what is there is kept",
    errno.EDQUOT: "free some space, then run the same command: what is there is kept",
    errno.ENAMETOOLONG: "use a shorter name",
    errno.EISDIR: "name a file in it",
    errno.ENOTDIR: "name a folder, or a new one",
    errno.EEXIST: "name a folder, or a new one",
    errno.ENOENT: "check the path",
    errno.ELOOP: "check the links of the path",
    errno.EMFILE: "raise the limit of open files: ulimit -n 4096",
}


def cache_folder() -> Path:
    """Where this user's programs keep what can be made again, and bon its part of it."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "bon"


def write_atomic(path: Path, content: str | bytes) -> None:
    """Replace a file in one step, so that a reader never sees half of it."""
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.write_bytes(content if isinstance(content, bytes) else content.encode())
    temporary.replace(path)


def refusal_of(error: OSError) -> BonError:
    """What the operating system refused, as the one line for the user."""
    name = str(error.filename or "")
    what = f"cannot use {name if len(name) < 200 else name[:100] + '…'}" if name else "cannot go on"
    reason = error.strerror or type(error).__name__
    if error.errno in (errno.EEXIST, errno.ENOTDIR):
        reason = "it is a file" if Path(name).is_file() else "a file lies where a folder should be"
    return BonError(f"{what}: {reason}", _REMEDIES.get(error.errno or 0, "check the path"))
