"""The sources that a benchmark is drawn from: their check, the first recipe, and open runs."""

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from bon.benchmarks import BENCHMARKS
from bon.core.errors import BonError, some
from bon.core.files import write_atomic
from bon.core.validation import validate
from bon.curating.recipe import Curation, recipe_text
from bon.curating.workbench import Workbench
from bon.running.reporting import open_run
from bon.storage.store import Store
from bon.work.completeness import completeness
from bon.work.setup import Setup


@dataclass(frozen=True)
class JudgedRun:
    """An open run; `path` is as in the recipe, so no path of this machine is published."""

    path: str
    setup: Setup
    store: Store


@contextmanager
def judged_runs(bench: Workbench) -> Iterator[list[JudgedRun]]:
    """Open the runs of the recipe."""
    with ExitStack() as stack:
        runs = []
        for path in bench.recipe.runs:
            store = stack.enter_context(Store(bench.directory / path, readonly=True))
            runs.append(JudgedRun(path, open_run(store), store))
        yield runs


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
    for run in runs:
        with Store(run, readonly=True) as store:
            if missing := completeness(open_run(store), store).missing:
                raise BonError(
                    f"{run} is not complete: {some(missing)}", f"continue it: bon run … -o {run}"
                )
    settings = {
        "runs": [os.path.relpath(path, out.resolve()) for path in dict.fromkeys(resolved)],
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
    if BENCHMARKS[benchmark].kind != "pairs":
        raise BonError(f"--from {name}: {benchmark} has no preference pairs", "bon list benchmarks")
    path = {"path": os.path.relpath(Path(file).resolve(), out.resolve())} if file else {}
    return {"benchmark": benchmark, **path}
