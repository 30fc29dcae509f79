"""Where modules are looked for: in the processes that bon starts as in the one that starts them.

`python -m`, and Ray in its workers, look first in the current folder, where somebody's own
datasets.py or evaluate.py may lie; the command `bon` does not.
"""

import os
import sys
import sysconfig
from itertools import takewhile


def from_here() -> bool:
    """Whether this process looks for modules in the current folder before those installed."""
    installed = sysconfig.get_path("purelib")
    first = takewhile(lambda folder: folder != installed, sys.path)
    return not {"", os.getcwd()}.isdisjoint(first)


def module(name: str, *arguments: str) -> list[str]:
    """The command line of Python that runs this module, looking first where this process does."""
    return [sys.executable, *([] if from_here() else ["-P"]), "-m", name, *arguments]
