"""The end of a run: its report, by a copy of this process that meanwhile loads what that takes."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Protocol

from bon.core.aside import aside
from bon.running.completeness import Completeness
from bon.running.saying import Reported

LAST = (
    "bon.running.reporting",
    "bon.running.frames",
    "bon.analysis.run",
    "bon.analysis.report",
    "bon.analysis.export",
    "matplotlib.figure",
    "matplotlib.backends.backend_svg",
)
"""What a run ends with, and takes longer to import than all that it starts with."""


class MakeReport(Protocol):
    """Reports on the run in a directory, of which `found` was just counted."""

    def __call__(self, directory: Path, *, found: Completeness | None = None) -> Reported: ...  # noqa: D102


@contextmanager
def reports() -> Iterator[MakeReport]:
    """What makes the report of a run that is about to start: begin before it opens its store."""
    with aside(_load, _make, or_thread=True) as begin:
        yield lambda directory, *, found=None: begin(directory, found=found)()


def _load() -> None:
    for name in LAST:
        import_module(name)


def _make(directory: Path, *, found: Completeness | None = None) -> Reported:
    from bon.running.reporting import make_report

    return make_report(directory, found=found)
