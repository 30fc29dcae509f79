"""The beginning: runs that a benchmark can be made of, and the recipe that is written for them."""

import os
from collections.abc import Sequence
from pathlib import Path

from bon.core.errors import BonError, some
from bon.core.files import write_atomic
from bon.curating.wanted import Curation, recipe_text
from bon.curating.workbench import Workbench
from bon.experiment.refusals import validate
from bon.formats.tabled import WITHOUT_TEXT
from bon.running.completeness import completeness
from bon.running.reporting import open_run
from bon.running.store import Store

MIN_TEXTS = 2
"""Fewer different answers to a question make no pair."""


def begin(
    runs: Sequence[Path], out: Path, *, items: int = 300, seed: int = 0, held_out: float = 0.3
) -> Workbench:
    """Check the runs and write recipe.yaml into the folder.

    Raises:
        BonError: a run cannot be used, or the folder has a recipe already.
    """
    bench = Workbench(out)
    if bench.recipe_path.exists():
        raise BonError(
            f"{bench.recipe_path} is there already",
            f"edit it and go on with: bon curate propose {out}, or choose another --out",
        )
    seen: set[Path] = set()
    for run in runs:
        if run.resolve() in seen:
            raise BonError(f"{run} is named twice", "name each run once")
        seen.add(run.resolve())
        check_run_has_pools(run)
    wanted = {
        "runs": [os.path.relpath(run.resolve(), out.resolve()) for run in runs],
        "items": items,
        "seed": seed,
        "held_out": held_out,
    }
    recipe = validate(Curation, wanted, "bon curate init")
    out.mkdir(parents=True, exist_ok=True)
    write_atomic(bench.recipe_path, recipe_text(recipe))
    return bench


def check_run_has_pools(directory: Path) -> None:
    """Refuse a run that is not finished, or that holds no answers of known correctness."""
    with Store(directory, readonly=True) as store:
        setup = open_run(store)
        if not store.has("questions", "active > 0 AND json_extract(data, '$.answer') IS NOT NULL"):
            raise BonError(
                f"{directory} does not know the answer of any question",
                "a benchmark needs to know which answers are right: use a run with gold answers",
            )
        missing = completeness(setup, store).missing
        if missing:
            raise BonError(
                f"{directory} is not finished: {some(missing)}",
                f"go on with: bon run … -o {directory}",
            )
        specs = [policy.spec for policy in setup.policies]
        marks = ", ".join("?" * len(specs))
        several = store.query(
            "SELECT 1 FROM candidates JOIN questions ON questions.key = question "
            f"WHERE active > 0 AND spec IN ({marks}) AND outcome != 'error' AND finish != ? "
            f"GROUP BY question HAVING COUNT(DISTINCT text_key) >= {MIN_TEXTS} LIMIT 1",
            (*specs, WITHOUT_TEXT),
        )
        if not several:
            raise BonError(
                f"no question of {directory} has two different answers with their texts",
                "sample more candidates (n of the policy), or import the answers' texts too",
            )
