"""Where modules are looked for: in the processes that bon starts as in the one that starts them.

`python -m`, and Ray in its workers, look first in the current folder, where somebody's own
datasets.py or evaluate.py may lie; the command `bon` does not.
"""

import os
import sys


def from_here() -> bool:
    """Whether this process looks for modules in the current folder."""
    return not {"", os.getcwd()}.isdisjoint(sys.path)


def module(name: str, *arguments: str) -> list[str]:
    """The command line of Python that runs this module and finds others as this process does."""
    return [sys.executable, *([] if from_here() else ["-P"]), "-m", name, *arguments]
