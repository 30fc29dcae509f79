"""The runs that a benchmark is drawn from: validation, the first recipe, and read access."""

import hashlib
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from bon.analysis.data.tables import Tables
from bon.benchmarks import adapter
from bon.core.errors import BonError, some
from bon.core.files import write_atomic
from bon.core.validation import validate
from bon.curating.recipe import Curation, recipe_text
from bon.curating.workbench import Workbench
from bon.formats.score_tables import WITHOUT_TEXT
from bon.running.reporting import open_run
from bon.storage.store import Store
from bon.work.completeness import completeness
from bon.work.run_tables import run_tables
from bon.work.setup import Setup


@dataclass(frozen=True)
class JudgedRun:
    """An open run. `name` is its folder's name, or its path if two folders share the name."""

    name: str
    setup: Setup
    store: Store

    @cached_property
    def tables(self) -> Tables:
        """The analysis tables under today's settings."""
        return run_tables(self.setup, self.store)

    def content_hash(self) -> str:
        """Hash questions, candidates and judgements, independent of their order."""
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
    """Open the runs of the recipe."""
    with open_runs([bench.directory / run for run in bench.recipe.runs]) as runs:
        yield runs


@contextmanager
def open_runs(directories: Sequence[Path]) -> Iterator[list[JudgedRun]]:
    """Open runs under unique names.

    Raises:
        BonError: a run is missing, or two runs prompt rewarders of one name differently.
    """
    names = [path.resolve().name for path in directories]
    with ExitStack() as stack:
        runs = []
        for path, name in zip(directories, names, strict=True):
            store = stack.enter_context(Store(path, readonly=True))
            unique = name if names.count(name) == 1 else str(path)
            runs.append(JudgedRun(unique, open_run(store), store))
        _check_same_rewarders(runs)
        yield runs


def _check_same_rewarders(runs: Sequence[JudgedRun]) -> None:
    specs: dict[str, tuple[str, str]] = {}
    for run in runs:
        for loaded in run.setup.rewarders:
            name = loaded.card.name
            spec, first = specs.setdefault(name, (loaded.own_spec, run.name))
            if spec != loaded.own_spec:
                raise BonError(
                    f"{name} is not prompted the same way in {first} and in {run.name}",
                    "make one benchmark of each, or give one of them its own `name:`",
                )


def begin(
    runs: Sequence[Path],
    out: Path,
    *,
    sets: Sequence[str] = (),
    items: int = 300,
    seed: int = 0,
    held_out: float = 0.3,
) -> Workbench:
    """Check the runs or preference sets and write recipe.yaml into the folder.

    sets: each a benchmark of pairs, BENCHMARK:FILE or a file of pairs.

    Raises:
        BonError: a source cannot be used, or the folder already has a recipe.
    """
    bench = Workbench(out)
    if bench.recipe_path.exists():
        raise BonError(
            f"{bench.recipe_path} already exists",
            f"edit it and draw again: bon curate draw --out {out}",
        )
    if not (runs or sets):
        raise BonError(f"nothing to draw from: no recipe in {out}", "name a RUN, or --from a SET")
    resolved = [run.resolve() for run in runs]
    for run, path in zip(runs, resolved, strict=True):
        if resolved.count(path) > 1:
            raise BonError(f"{run} occurs twice", "name each run once")
        _check_has_pools(run)
    settings = {
        "runs": [os.path.relpath(path, out.resolve()) for path in resolved],
        "pairs": [_preference_set(name, out) for name in sets],
        "items": items,
        "seed": seed,
        "held_out": held_out,
    }
    recipe = validate(Curation, settings, "bon curate draw")
    out.mkdir(parents=True, exist_ok=True)
    write_atomic(bench.recipe_path, recipe_text(recipe))
    return bench


def _preference_set(name: str, out: Path) -> dict[str, str]:
    """Return the source of a benchmark, of one in a file (NAME:FILE), or of a file of pairs."""
    benchmark, _, file = name.partition(":")
    if Path(name).exists():
        benchmark, file = "preference", name
    elif file and not Path(file).exists():
        raise BonError(f"--from {name}: there is no file {file}", "name one that exists")
    if adapter(benchmark).kind != "pairs":
        raise BonError(f"--from {name}: {benchmark} has no preference pairs", "bon list benchmarks")
    path = {"path": os.path.relpath(Path(file).resolve(), out.resolve())} if file else {}
    return {"benchmark": benchmark, **path}


def _check_has_pools(directory: Path) -> None:
    """Refuse a run that is incomplete, or without several answers of known correctness."""
    with Store(directory, readonly=True) as store:
        setup = open_run(store)
        if not store.has("questions", "active > 0 AND json_extract(data, '$.answer') IS NOT NULL"):
            raise BonError(
                f"{directory} holds no gold answer",
                "use a run with gold answers: a benchmark needs to know which answers are right",
            )
        missing = completeness(setup, store).missing
        if missing:
            raise BonError(
                f"{directory} is not complete: {some(missing)}",
                f"continue it: bon run … -o {directory}",
            )
        specs = [policy.spec for policy in setup.policies]
        marks = ", ".join("?" * len(specs))
        if not store.query(
            "SELECT 1 FROM candidates JOIN questions ON questions.key = question "
            f"WHERE active > 0 AND spec IN ({marks}) AND outcome != 'error' AND finish != ? "
            "GROUP BY question HAVING COUNT(DISTINCT text_key) >= 2 LIMIT 1",
            (*specs, WITHOUT_TEXT),
        ):
            raise BonError(
                f"no question of {directory} has two different answers with their texts",
                "sample more candidates (n of the policy), or import the answers' texts too",
            )
