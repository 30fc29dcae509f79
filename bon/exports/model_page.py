"""The page of a reward model on the hub: `.eval_results/` and a `model-index` for its README.

A folder per rewarder, to be copied into the model's repository. `.eval_results` takes only datasets
of the hub, and has no place for an interval: it is in `notes`.
"""

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import yaml

from bon.analysis.results import Estimate
from bon.benchmarks import adapter
from bon.core.errors import BonError
from bon.exports.contents import Contents
from bon.exports.scored import Scored, hub_of, model_id, name_of, scored
from bon.running.saying import say


def write_model_page(contents: Contents, out: Path) -> list[Path]:
    """Both forms for every rewarder; says which of them only the second one can hold."""
    written: list[Path] = []
    local: set[str] = set()
    for rewarder, rows in groupby(scored(contents), key=lambda row: row.rewarder):
        folder = out / rewarder.card.name
        folder.mkdir(parents=True, exist_ok=True)
        listed = list(rows)
        page = folder / "README.md"
        page.write_text(_front_matter(contents, listed), encoding="utf-8")
        written.append(page)
        entries = list(_eval_results(contents, listed))
        local |= {name_of(row.dataset) for row in listed if not hub_of(row.dataset)}
        if entries:
            path = folder / ".eval_results" / "bon.yaml"
            path.parent.mkdir(exist_ok=True)
            path.write_text(_yaml(entries), encoding="utf-8")
            written.append(path)
    if not written:
        raise BonError("the run has no rewarders to write about", "bon list exports has the others")
    if local:
        say(f"not in .eval_results, which takes datasets of the hub: {', '.join(sorted(local))}")
    return written


def _eval_results(contents: Contents, rows: list[Scored]) -> Iterator[dict[str, Any]]:
    """The headline of each dataset of the hub: accuracy on the axis of the run, and Best-of-N."""
    axis = contents.results.options.axis.removeprefix("group:")
    for row in rows:
        if not hub_of(row.dataset) or row.metric != "accuracy":
            continue
        if row.choice is None and not row.key.endswith(f".{axis}"):
            continue
        spec = row.dataset
        config = adapter(spec.benchmark).config(spec.config) or "default"
        dataset = {"id": hub_of(spec), "task_id": config}
        yield {
            "dataset": dataset | ({"revision": spec.revision} if spec.revision else {}),
            "value": _percent(row.estimate),
            "date": contents.results.run.created[:10],
            "source": {"name": f"bon {contents.results.run.bon_version}"},
            "notes": f"{row.title}; {_interval(contents, row.estimate)}; {row.about}",
        }


def _front_matter(contents: Contents, rows: list[Scored]) -> str:
    results = [
        {
            "task": {"type": "image-text-to-text", "name": row.about},
            "dataset": {"type": hub_of(row.dataset) or "local", "name": name_of(row.dataset)}
            | ({"revision": row.dataset.revision} if row.dataset.revision else {}),
            "metrics": [
                {
                    "type": row.metric,
                    "value": row.estimate.value,
                    "name": f"{row.title} ({_interval(contents, row.estimate)})",
                }
            ],
        }
        for row in rows
    ]
    name = model_id(rows[0].rewarder.card)[1]
    return f"---\n{_yaml({'model-index': [{'name': name, 'results': results}]})}---\n"


def _interval(contents: Contents, estimate: Estimate) -> str:
    level = f"{100 * contents.results.options.level:g}% CI"
    if estimate.low is None or estimate.high is None:
        return f"no interval, n = {estimate.n}"
    return f"{level} {100 * estimate.low:.1f} to {100 * estimate.high:.1f}, n = {estimate.n}"


def _percent(estimate: Estimate) -> float:
    assert estimate.value is not None
    return round(100 * estimate.value, 2)


def _yaml(value: Any) -> str:
    return yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=96)
