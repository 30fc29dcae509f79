# ruff: noqa: F405
"""bon: does a reward-model benchmark predict which reward model picks better answers?

The public API is in bon.api; see docs/python.md.
"""

import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bon.api import *  # noqa: F403

for _room in ("analysis", "policies", "rewarders"):
    # A symbolic link in a checkout, or a file with its target where git could not create links.
    _link = os.path.join(os.path.dirname(__file__), _room)
    if os.path.isfile(_link):
        print(
            f"bon: {_link} is a file and should be a symbolic link: turn links on and check out "
            "again (git config core.symlinks true; git checkout -- bon), or install a wheel",
            file=sys.stderr,
        )
        sys.exit(2)
__version__ = "0.3.0.dev0"

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
