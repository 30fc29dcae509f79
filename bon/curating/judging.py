"""`bon curate judge`: an experiment in which the runs' rewarders judge the items that they did not.

Its reward benchmark are the items that a rewarder lacks. An experiment has questions too: this one
has a single one of the first run, which was answered and judged there (`from`), so `bon run` asks
for the items and nothing else.
"""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from bon.core.files import write_atomic
from bon.curating.frozen_rows import PAIRS, pair_rows, write_rows
from bon.curating.judged_runs import JudgedRun, judged_runs
from bon.curating.on_items import missing_items
from bon.curating.workbench import Workbench

HEAD = """\
# Judges the items that rewarders of the runs were not asked about: written by bon curate judge.
# Only the pairs are asked for: the one question that comes along was judged in its run.
#   bon plan {file}
#   bon run {file} --out {out}
"""


@dataclass(frozen=True)
class Unjudged:
    """Of each rewarder how many items it lacks; `items` in all that any lacks."""

    by_rewarder: Mapping[str, int]
    items: int
    path: Path | None


def write_judging(bench: Workbench) -> Unjudged:
    """Write judge.yaml and its pairs, where anything is missing."""
    missing = {name: items for name, items in missing_items(bench).items() if items}
    wanted = set().union(*missing.values())
    if not wanted:
        return Unjudged({}, 0, None)
    items = [item for item in bench.items if item.key in wanted]
    pairs = bench.directory / "judging" / "pairs.parquet"
    write_rows(pair_rows(items, bench.directory, {}), PAIRS, pairs)
    with judged_runs(bench) as runs:
        experiment = _experiment(bench, runs, set(missing), pairs)
    head = HEAD.format(file=bench.judging_path, out=bench.judged)
    body = yaml.safe_dump(experiment, sort_keys=False, allow_unicode=True)
    write_atomic(bench.judging_path, head + body)
    counts = {name: len(items) for name, items in missing.items()}
    return Unjudged(counts, len(wanted), bench.judging_path)


def judging_text(found: Unjudged, bench: Workbench) -> str:
    """For a person: what is missing, and the command that asks for it."""
    if found.path is None:
        return "Every rewarder of the runs has judged every item: nothing is missing."
    lines = [f"{found.items} items were not judged by every rewarder:"]
    lines += [f"  {name:<32}lacks {count}" for name, count in found.by_rewarder.items()]
    lines += ["", f"bon plan {found.path}", f"bon run {found.path} --out {bench.judged}"]
    return "\n".join(lines)


def _experiment(
    bench: Workbench, runs: list[JudgedRun], lacking: set[str], pairs: Path
) -> dict[str, Any]:
    first = runs[0]
    rewarders: dict[str, Any] = {}
    for run in runs:
        for loaded, ref in zip(run.setup.rewarders, _own_refs(run), strict=True):
            if loaded.card.name in lacking:
                rewarders.setdefault(loaded.card.name, _placed(ref, run.setup.base))
    return {
        "name": f"{bench.name} judged",
        "seed": first.setup.experiment.seed,
        "questions": {"limit": 1},
        "pairs": [
            {
                "benchmark": "preference",
                "path": str(pairs.relative_to(bench.directory)),
                "name": bench.name,
            }
        ],
        "policies": [
            {
                "from": {
                    "files": [str(first.store.directory.resolve())],
                    "of": first.setup.policies[0].card.name,
                }
            }
        ],
        "rewarders": list(rewarders.values()),
        "judging": first.setup.experiment.judging.model_dump(
            mode="json", by_alias=True, exclude_unset=True
        ),
        "allow_remote_code": any(run.setup.experiment.allow_remote_code for run in runs),
    }


def _own_refs(run: JudgedRun) -> list[Any]:
    """How the run's experiment names its rewarders, ensembles left out, which are asked nothing."""
    ensembles = {loaded.card.name for loaded in run.setup.ensembles}
    refs = run.setup.raw.get("rewarders") or []
    return [ref for ref in refs if not (isinstance(ref, dict) and ref.get("name") in ensembles)]


def _placed(ref: Any, base: Path) -> Any:
    """The same reference from another folder: paths that start at the run's experiment, in full."""
    if isinstance(ref, str):
        return _full(ref, base)
    made = deepcopy(ref)
    if isinstance(made.get("card"), str):
        made["card"] = _full(made["card"], base)
    if isinstance(prompt := made.get("prompt"), dict) and "file" in prompt:
        prompt["file"] = _full(prompt["file"], base)
    return made


def _full(name: str, base: Path) -> str:
    return str((base / name).resolve()) if (base / name).is_file() else name
