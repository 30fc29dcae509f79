"""README.md of a frozen benchmark: contents, quality and licences."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

import bon
from bon.analysis.results.audit import CurationAudit
from bon.curating.items import CuratedItem
from bon.curating.recipe import STRATEGIES
from bon.exports.licences import Licence

_CARD = """\
---
{metadata}---

# {name}, version {version}

A reward benchmark made by bon {bon} from real answers of policies: {items} public items.\
{held_out} Every item states its inclusion probability.{private}
{anyway}
## Contents

{strategies}

How items were drawn, and what filters excluded, is in recipe.yaml and proposal.json.{left_out}

## Quality

{quality}

## Use

In a bon experiment:

```yaml
pairs:
- {{benchmark: preference, name: {name}-{version}, path: pairs.parquet}}
analysis: {{axis: macro}}   # natural: on the pool that the items were drawn from
```

Without bon: `datasets.load_dataset("parquet", data_files="pairs.parquet")`. Judge every pair in \
both orders.

## Columns of pairs.parquet

| column | description |
|---|---|
| `id`, `key` | label and identity of the item |
| `prompt`, `images`, `responses` | what a rewarder sees |
| `preferred` | index of the better response |
| `answers`, `policies`, `lengths` | of each response: its letter, its policy, characters |
| `group` | the strategy that drew it; macro accuracy is the mean over groups |
| `tag` | errors that annotators named |
| `cluster` | its question: items of one question are resampled together |
| `weight` | how many pairs of the pool it represents: 1 / inclusion probability |

## Licences

Derived from the licences' names; not legal advice.

| part | source | licence | terms |
|---|---|---|---|
{licences}
"""


@dataclass(frozen=True)
class FrozenSource:
    """A part of the benchmark, its source and licence."""

    part: str
    name: str
    licence: Licence

    def __str__(self) -> str:
        return f"{self.part} of {self.name}"


def dataset_card(
    name: str,
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
    """Return the card of the published items, with metadata for `datasets` and the hub."""
    metadata: dict[str, Any] = {
        "license": licence,
        "task_categories": ["visual-question-answering"],
        "tags": ["bon", "reward-model", "preference", "benchmark"],
        "configs": [
            {"config_name": "pairs", "data_files": [{"split": "test", "path": "pairs.parquet"}]}
        ],
    }
    held_out = f" {audit.held_out} more, on unpublished questions, are held out."
    reasons = "; ".join(f"{count}: {reason}" for reason, count in left_out.items())
    override = f"\n**Frozen although the audit objected:** {anyway}\n"
    return _CARD.format(
        metadata=yaml.safe_dump(metadata, sort_keys=False, allow_unicode=True),
        name=name,
        version=version,
        bon=bon.__version__,
        items=len(items),
        held_out=held_out if audit.held_out else "",
        private=" **Not to be passed on:** its sources do not permit it." if private else "",
        anyway=override if anyway else "",
        strategies=_strategies(items),
        left_out=f" Excluded after annotation: {reasons}." if reasons else "",
        quality="\n".join(f"- {line}" for line in _quality(audit)),
        licences="\n".join(
            f"| {source.part} | {source.name} | {source.licence.name} "
            f"| {source.licence.terms or '–'} |"
            for source in sources
        ),
    )


def _strategies(items: Sequence[CuratedItem]) -> str:
    counts: Counter[Any] = Counter(item.strategy for item in items)
    rows = [
        f"| {name} | {count} | {STRATEGIES.get(name, 'of bon 0.2')} |"
        for name, count in counts.most_common()
    ]
    return "\n".join(["| strategy | items | description |", "|---|---|---|", *rows])


def _quality(audit: CurationAudit) -> list[str]:
    lines = [] if audit.labels else ["No annotator has checked its labels."]
    lines += audit.findings
    lines += audit.warnings
    return [*lines, "The full audit, with lists of items, is in audit.json and audit.html."]
