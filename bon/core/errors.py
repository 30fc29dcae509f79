"""User-fixable errors raise BonError."""

import json
import math
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from enum import IntEnum
from typing import Any, ClassVar


class ExitCode(IntEnum):
    """Exit codes of the command line (docs/experiment.md)."""

    COMPLETE = 0
    UNEXPECTED = 1
    MISTAKE = 2
    INCOMPLETE = 3
    NO_GO = 4
    INTERRUPTED = 130
    TERMINATED = 143


EXIT_CODES = {
    "go": ExitCode.COMPLETE,
    "inconclusive": ExitCode.INCOMPLETE,
    "no-go": ExitCode.NO_GO,
}
"""Exit codes of the answers of a test, the worst highest."""


class BonError(Exception):
    """A user-fixable error, shown as one line without a traceback.

    While a model works, it fails that model alone unless `stops_run`.
    """

    stops_run: ClassVar[bool] = False
    exit_code: ClassVar[ExitCode] = ExitCode.MISTAKE

    def __init__(self, message: str, fix: str = "") -> None:
        super().__init__(message if not fix else f"{message} -> {fix}")
        self.message = message
        self.fix = fix
        self.rows: tuple[Any, ...] = ()
        """What the item at hand had come to before: it was paid for, and is stored."""


class Unsupported(BonError):  # noqa: N818
    """An engine lacks the requested capability."""


class EngineDied(BonError):  # noqa: N818
    """A model's process, device or connection failed, and no item is to blame.

    Its worker is started anew and the items are sent again; nothing is stored.
    """

    exit_code = ExitCode.INCOMPLETE


class SpendingCapReached(BonError):  # noqa: N818
    """The run has reached its spending cap; finished rows are kept."""

    stops_run = True
    exit_code = ExitCode.INCOMPLETE


class Unavailable(BonError):  # noqa: N818
    """A cluster or endpoint is down; the same command resumes once it is back."""

    exit_code = ExitCode.INCOMPLETE


class Incomplete(BonError):  # noqa: N818
    """A run was analysed with rows missing, failed or above an error limit."""

    exit_code = ExitCode.INCOMPLETE


_LOST = frozenset(
    ("ConnectionError", "NetworkError", "ConnectTimeout", "ClientConnectionError", "EOFError",
     "ProcessLookupError", "BrokenExecutor", "EngineDeadError", "RayError", "AcceleratorError")
)  # fmt: skip
"""Names of exceptions, here and in libraries: a process, a device or a connection is lost."""
_DEVICE = ("CUDA error", "CUBLAS_STATUS", "CUDNN_STATUS", "NCCL error", "HIP error")


def engine_died(error: BaseException | None) -> EngineDied | None:
    """Return what to raise for an exception that is no item's fault, by it and its causes."""
    first = error
    while error is not None:
        if isinstance(error, EngineDied):
            return error
        named = {kind.__name__ for kind in type(error).__mro__}
        if named & _LOST or any(word in str(error) for word in _DEVICE):
            return EngineDied(one_line(first or error))
        error = error.__cause__
    return None


UNANSWERED = "Unanswered: "
"""Begins the error of a row whose request no try of an endpoint answered: it is asked again."""


def one_line(error: BaseException, limit: int = 500) -> str:
    """Format an exception as `Type: message` on one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:limit]


def suggestion(word: str, known: Iterable[str], fallback: str = "", cutoff: float = 0.5) -> str:
    """Suggest the known name most like `word`, or else the fallback, or the known names."""
    names = list(known)
    close = get_close_matches(word, names, n=1, cutoff=cutoff)
    return f"did you mean {close[0]!r}?" if close else fallback or f"known: {', '.join(names[:12])}"


def some(items: Sequence[str], limit: int = 3) -> str:
    """Join the first few items and count the rest."""
    more = len(items) - limit
    return "; ".join(items[:limit]) + (f"; and {more} more" if more > 0 else "")


def shown(value: Any, limit: int = 60) -> str:
    """Format a value for an error message: YAML-like and at most one line."""
    if value is None:
        return "nothing"
    if isinstance(value, float) and not math.isfinite(value):
        return ".nan" if math.isnan(value) else ".inf" if value > 0 else "-.inf"
    is_text = isinstance(value, str)
    text = repr(value) if is_text else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= limit else text[:limit] + "…"
