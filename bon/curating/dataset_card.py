"""README.md of a frozen benchmark: what it is, how good it was found, what may be done with it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import yaml

import bon
from bon.analysis.results import Estimate
from bon.analysis.results.audited import CurationAudit, ItemsAudit, LabelAudit
from bon.curating.wanted import STRATEGIES
from bon.exports.licences import Licence

if TYPE_CHECKING:
    from bon.curating.workbench import Workbench


@dataclass(frozen=True)
class FrozenSource:
    """What of a run is in the benchmark, from where, and under which licence."""

    what: str
    name: str
    licence: Licence


def dataset_card(
    bench: "Workbench",
    audit: CurationAudit,
    *,
    version: str,
    licence: str,
    sources: Sequence[FrozenSource],
    left_out: Mapping[str, int],
    anyway: str,
    private: bool,
) -> str:
    """Metadata that `datasets` and the hub read, then the same for people."""
    files = ["pairs", *(["ties"] if any(item.better is None for item in bench.items) else [])]
    head: dict[str, Any] = {
        "license": licence,
        "task_categories": ["visual-question-answering"],
        "tags": ["bon", "reward-model", "preference", "benchmark"],
        "configs": [
            {"config_name": name, "data_files": [{"split": "test", "path": f"{name}.parquet"}]}
            for name in files
        ],
    }
    parts = [
        f"---\n{yaml.safe_dump(head, sort_keys=False, allow_unicode=True)}---",
        f"# {bench.name}, version {version}",
        _about(audit, private),
        *([f"**The audit said no, and it was frozen all the same:** {anyway}"] if anyway else []),
        "## What is in it",
        _strategies(audit),
        _removed(audit, left_out),
        "## How good it is",
        "\n".join(f"- {line}" for line in _quality(audit)),
        *(["\n".join(f"- {line}" for line in audit.warnings)] if audit.warnings else []),
        "## Use",
        _use(bench.name, version),
        "## Columns of pairs.parquet",
        _COLUMNS,
        "## Licences",
        "What a licence's name says, and no lawyer's advice.",
        "| what | from | licence | says |\n|---|---|---|---|\n"
        + "\n".join(
            f"| {one.what} | {one.name} | {one.licence.name} | {one.licence.says or '–'} |"
            for one in sources
        ),
    ]
    return "\n\n".join(parts) + "\n"


def _about(audit: CurationAudit, private: bool) -> str:
    held = (
        f" {audit.held_out} more are about questions that are not published, to measure on."
        if audit.held_out
        else ""
    )
    keep = " **Not to be passed on:** its sources do not permit it." if private else ""
    return (
        f"A reward benchmark made by bon {bon.__version__} of answers that policies really gave: "
        f"{audit.items - audit.held_out} public items.{held} Every item says with which "
        f"probability it was drawn.{keep}"
    )


def _strategies(audit: CurationAudit) -> str:
    rows = [
        f"| {name} | {count} | {STRATEGIES[name]} |"  # type: ignore[index]
        for name, count in audit.strategies.items()
    ]
    return "| strategy | items | what |\n|---|---|---|\n" + "\n".join(rows)


def _removed(audit: CurationAudit, left_out: Mapping[str, int]) -> str:
    said = "; ".join(f"{count}: {why}" for why, count in left_out.items())
    filters = (
        "How items were drawn, and what filters took out, is in recipe.yaml and proposal.json."
    )
    return f"{filters} Left out after annotation: {said}." if said else filters


def _quality(audit: CurationAudit) -> list[str]:
    return [
        *(_of_labels(audit.labels) if audit.labels else ["No person has looked at its labels."]),
        *(_of_items(audit.by_rewarders) if audit.by_rewarders else ["No rewarder was asked yet."]),
        *(
            [f"Form alone tells the better response with an AUC of {_plain(audit.shortcuts.auc)}."]
            if audit.shortcuts.auc
            else []
        ),
        "All of it, with the lists of items, is in audit.json and audit.html.",
    ]


def _of_labels(labels: LabelAudit) -> list[str]:
    found = [
        f"{labels.answered} of {labels.items} items were looked at by people; label error "
        f"{_share(labels.error)}, so that a perfect rewarder shows {_share(labels.ceiling)}."
    ]
    if labels.agreement:
        whole = labels.agreement[0]
        found.append(
            f"Annotators agree on {_share(whole.percent)} of {whole.items} items; Krippendorff's "
            f"alpha {_plain(whole.alpha)}."
        )
    return found


def _of_items(items: ItemsAudit) -> list[str]:
    found = [f"Reliability over {len(items.rewarders)} rewarders: {_plain(items.reliability)}."]
    if items.distinguished is not None:
        per = items.distinguished_per_100
        also = f" ({per:.0%} with 100 items)" if per is not None else ""
        found.append(
            f"{items.distinguished:.0%} of {items.num_pairs} pairs of rewarders can be "
            f"distinguished{also}."
        )
    left = [one.rewarder for one in items.rewarders if one.filter_model]
    if left:
        found.append(
            f"It was filtered by {', '.join(left)}: do not rank them or models of their families."
        )
    return found


def _use(name: str, version: str) -> str:
    return (
        "In a bon experiment:\n\n"
        "```yaml\n"
        f"pairs:\n- {{benchmark: preference, name: {name}-{version}, path: pairs.parquet}}\n"
        "analysis: {axis: macro}   # natural: on the pool that the items were drawn from\n"
        "```\n\n"
        "Without bon: `lmms_eval --include_path lmms_eval --tasks NAME` (run it in this folder's "
        "`lmms_eval/`), or put `vlmevalkit/*.tsv` into `$LMUData` and run VLMEvalKit with `--data` "
        "and its name. Both ask about every pair in both orders."
    )


_COLUMNS = """| column | what |
|---|---|
| `id`, `key` | label and identity of the item |
| `prompt`, `images`, `responses` | what a rewarder sees |
| `preferred` | the place of the better response |
| `answers`, `policies`, `lengths` | of each response: its letter, who gave it, characters |
| `group` | the strategy that drew it; macro accuracy is the mean over groups |
| `tag` | errors that annotators named |
| `cluster` | its question: items of one question are resampled together |
| `set` | pairs of one better response against each of several worse ones |
| `weight` | how many pairs of the pool it stands for: 1 / the probability of being drawn |"""


def _share(estimate: Estimate) -> str:
    return _said(estimate, "{:.1%}")


def _plain(estimate: Estimate) -> str:
    return _said(estimate, "{:.2f}")


def _said(estimate: Estimate, form: str) -> str:
    if estimate.value is None:
        return "unknown"
    if estimate.low is None or estimate.high is None:
        return form.format(estimate.value)
    low, high = form.format(estimate.low), form.format(estimate.high)
    return f"{form.format(estimate.value)} ({low} to {high})"
