"""`bon curate judge`: an experiment in which the runs' rewarders judge the items they lack.

Its reward benchmark is the missing items. An experiment also needs questions: this one imports a
single answered and judged question of the first run, so `bon run` sends requests for items only.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from bon.core.files import write_atomic
from bon.curating.freezing.frozen_rows import pair_rows, write_rows
from bon.curating.proposing.item_judgements import missing_items
from bon.curating.proposing.judged_runs import JudgedRun, judged_runs
from bon.curating.workbench import Workbench

_HEADER = """\
# Judges the items for which rewarders of the runs lack verdicts. Written by bon curate judge.
# Only the pairs are judged: the one question was judged in its run.
#   bon plan {path}
#   bon run {path} --out {out}
"""


@dataclass(frozen=True)
class MissingVerdicts:
    """Number of unjudged items per rewarder and overall; `path` of the experiment, if needed."""

    by_rewarder: dict[str, int]
    items: int
    path: Path | None

    def text(self, bench: Workbench) -> str:
        """Describe what is missing and how to compute it."""
        if self.path is None:
            return "Every rewarder of the runs has judged every item."
        lines = [f"{self.items} items were not judged by every rewarder:"]
        lines += [f"  {name:<32}lacks {count}" for name, count in self.by_rewarder.items()]
        lines += ["", f"bon plan {self.path}", f"bon run {self.path} --out {bench.judged}"]
        return "\n".join(lines)


def write_judging(bench: Workbench) -> MissingVerdicts:
    """Write judge.yaml and its pairs if any verdict is missing."""
    missing = {name: keys for name, keys in missing_items(bench).items() if keys}
    if not missing:
        return MissingVerdicts({}, 0, None)
    keys = set().union(*missing.values())
    items = [item for item in bench.items if item.key in keys]
    pairs = bench.directory / "judging" / "pairs.parquet"
    write_rows(pair_rows(items, bench.directory, {}), pairs)
    with judged_runs(bench) as runs:
        experiment = _experiment(bench, runs, set(missing), pairs)
    header = _HEADER.format(path=bench.judging_path, out=bench.judged)
    body = yaml.safe_dump(experiment, sort_keys=False, allow_unicode=True)
    write_atomic(bench.judging_path, header + body)
    counts = {name: len(keys) for name, keys in missing.items()}
    return MissingVerdicts(counts, len(keys), bench.judging_path)


def _experiment(
    bench: Workbench, runs: list[JudgedRun], lacking: set[str], pairs: Path
) -> dict[str, Any]:
    first, experiment = runs[0], runs[0].setup.experiment
    rewarders: dict[str, Any] = {}
    for run in runs:
        for loaded, ref in zip(run.setup.rewarders, _references(run), strict=True):
            if loaded.card.name in lacking:
                rewarders.setdefault(loaded.card.name, _resolved(ref, run.setup.base))
    path = str(pairs.relative_to(bench.directory))
    source = {
        "files": [str(first.store.directory.resolve())],
        "of": first.setup.policies[0].card.name,
    }
    return {
        "name": f"{bench.name} judged",
        "seed": experiment.seed,
        "questions": {"limit": 1},
        "pairs": [{"benchmark": "preference", "path": path, "name": bench.name}],
        "policies": [{"from": source}],
        "rewarders": list(rewarders.values()),
        "judging": experiment.judging.model_dump(mode="json", by_alias=True, exclude_unset=True),
        "allow_remote_code": any(run.setup.experiment.allow_remote_code for run in runs),
    }


def _references(run: JudgedRun) -> list[Any]:
    """Return the rewarder references of a run's experiment, without ensembles."""
    ensembles = {loaded.card.name for loaded in run.setup.ensembles}
    references = run.setup.raw.get("rewarders") or []
    return [r for r in references if not (isinstance(r, dict) and r.get("name") in ensembles)]


def _resolved(reference: Any, base: Path) -> Any:
    """Return a reference whose relative paths are resolved against its experiment's folder."""
    if isinstance(reference, str):
        path = base / reference
        return str(path.resolve()) if path.is_file() else reference
    resolved = dict(reference)
    if isinstance(resolved.get("card"), str):
        resolved["card"] = _resolved(resolved["card"], base)
    if isinstance(prompt := resolved.get("prompt"), dict) and "file" in prompt:
        resolved["prompt"] = prompt | {"file": _resolved(prompt["file"], base)}
    return resolved
