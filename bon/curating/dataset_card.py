"""README.md of a frozen benchmark: what it is, how good it was found, what may be done with it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import yaml

import bon
from bon.analysis.results.audited import CurationAudit
from bon.curating.items import CuratedItem
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
    items: Sequence[CuratedItem],
    *,
    version: str,
    licence: str,
    sources: Sequence[FrozenSource],
    left_out: Mapping[str, int],
    anyway: str,
    private: bool,
) -> str:
    """Metadata that `datasets` and the hub read, then the same for people.

    `items` are those that are published.
    """
    files = ["pairs", *(["ties"] if any(item.better is None for item in items) else [])]
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
        _about(audit, len(items), private),
        *([f"**The audit said no, and it was frozen all the same:** {anyway}"] if anyway else []),
        "## What is in it",
        _strategies(items),
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


def _about(audit: CurationAudit, public: int, private: bool) -> str:
    held = (
        f" {audit.held_out} more are about questions that are not published, to measure on."
        if audit.held_out
        else ""
    )
    keep = " **Not to be passed on:** its sources do not permit it." if private else ""
    return (
        f"A reward benchmark made by bon {bon.__version__} of answers that policies really gave: "
        f"{public} public items.{held} Every item says with which "
        f"probability it was drawn.{keep}"
    )


def _strategies(items: Sequence[CuratedItem]) -> str:
    counts = Counter(item.strategy for item in items)
    rows = [
        f"| {name} | {counts[name]} | {what} |" for name, what in STRATEGIES.items() if counts[name]
    ]
    return "| strategy | items | what |\n|---|---|---|\n" + "\n".join(rows)


def _removed(audit: CurationAudit, left_out: Mapping[str, int]) -> str:
    said = "; ".join(f"{count}: {why}" for why, count in left_out.items())
    filters = (
        "How items were drawn, and what filters took out, is in recipe.yaml and proposal.json."
    )
    return f"{filters} Left out after annotation: {said}." if said else filters


def _quality(audit: CurationAudit) -> list[str]:
    said = list(audit.findings)
    if audit.labels is None:
        said.insert(0, "No person has looked at its labels.")
    rewarders = audit.by_rewarders.rewarders if audit.by_rewarders else ()
    if left := [one.rewarder for one in rewarders if one.filter_model]:
        said.append(
            f"It was filtered by {', '.join(left)}: do not rank them or models of their families."
        )
    return [*said, "All of it, with the lists of items, is in audit.json and audit.html."]


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
