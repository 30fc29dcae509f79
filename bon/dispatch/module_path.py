"""The command line of a child process that looks for modules where its parent does.

`python -m`, and Ray in its workers, search the current folder first, where a user's own
datasets.py or evaluate.py may lie; the command `bon` does not.
"""

import os
import sys
import sysconfig
from itertools import takewhile


def cwd_first() -> bool:
    """Whether this process searches the current folder before the installed packages."""
    installed = sysconfig.get_path("purelib")
    first = takewhile(lambda folder: folder != installed, sys.path)
    return not {"", os.getcwd()}.isdisjoint(first)


def module_command(name: str, *arguments: str) -> list[str]:
    """Return the command line that runs a module with this process's search order."""
    return [sys.executable, *([] if cwd_first() else ["-P"]), "-m", name, *arguments]
