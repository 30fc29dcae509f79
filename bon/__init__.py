# ruff: noqa: F405
"""bon: does a reward-model benchmark predict which reward model picks better answers?

The public API is in bon.api; see docs/python.md.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bon.api import *  # noqa: F403

__version__ = "0.4.0.dev0"

__all__ = [
    "Adapter",
    "BestAnswer",
    "BonError",
    "Form",
    "Ranking",
    "Rewarder",
    "Rule",
    "Run",
    "Verdict",
    "abest_of_n",
    "arank",
    "ascore",
    "best_of_n",
    "close",
    "correlate",
    "demo",
    "load",
    "rank",
    "register",
    "run",
    "score",
]


def __getattr__(name: str) -> Any:
    # Imported lazily, so that `bon --help` does not import pandas and pydantic.
    if name in __all__:
        from bon import api

        return getattr(api, name)
    raise AttributeError(f"module 'bon' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
