"""The runs that a benchmark is made of, open to be read."""

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from bon.analysis.data.tables import Tables
from bon.core.errors import BonError
from bon.curating.workbench import Workbench
from bon.running.frames import run_tables
from bon.running.reporting import open_run
from bon.running.setup import Setup
from bon.running.store import Store


@dataclass(frozen=True)
class JudgedRun:
    """One run. `name` is its folder's, or its path where two folders are called the same."""

    name: str
    setup: Setup
    store: Store

    @cached_property
    def tables(self) -> Tables:
        """What counts of it today."""
        return run_tables(self.setup, self.store)

    def content_hash(self) -> str:
        """What it holds: questions, candidates and judgements, whatever their order."""
        digest = hashlib.sha256()
        for sql in (
            "SELECT key, data FROM questions WHERE active > 0 ORDER BY key",
            "SELECT key, text_key, answer, outcome FROM candidates ORDER BY key",
            "SELECT key, outcome, score FROM judgements ORDER BY key",
        ):
            for row in self.store.query(sql):
                digest.update(repr(row).encode("utf-8", "surrogatepass"))
        return digest.hexdigest()


@contextmanager
def judged_runs(bench: Workbench) -> Iterator[list[JudgedRun]]:
    """The runs that the recipe names.

    Raises:
        BonError: one is not there, or asks a rewarder of that name in another way.
    """
    with opened([bench.directory / run for run in bench.recipe.runs]) as runs:
        yield runs


@contextmanager
def opened(directories: Sequence[Path]) -> Iterator[list[JudgedRun]]:
    """Runs under names of their own, of which a rewarder of one name is one rewarder."""
    names = [path.resolve().name for path in directories]
    with ExitStack() as stack:
        runs = []
        for path, name in zip(directories, names, strict=True):
            store = stack.enter_context(Store(path, readonly=True))
            own = name if names.count(name) == 1 else str(path)
            runs.append(JudgedRun(own, open_run(store), store))
        _check_same_rewarders(runs)
        yield runs


def _check_same_rewarders(runs: Sequence[JudgedRun]) -> None:
    asked: dict[str, tuple[str, str]] = {}
    for run in runs:
        for loaded in run.setup.rewarders:
            name = loaded.card.name
            spec, other = asked.setdefault(name, (loaded.own_spec, run.name))
            if spec != loaded.own_spec:
                raise BonError(
                    f"{name} is not asked in the same way in {other} and in {run.name}",
                    "make a benchmark of each, or give one of them a `name:` of its own",
                )
