"""Multimodal RewardBench: six domains, 4,711 pairs in the open release; overall is micro.

Read from data/all_data.json, which the benchmark's script builds, or from the hub. `tag` is the
published split of safety (bias, toxicity) and of reasoning (math, coding).
"""

from bon.benchmarks.base import Adapter, Context, Form, Published, Row, RowError, bibtex
from bon.core.records import PreferencePair

DOMAINS = {
    "correct": "correctness",
    "prefer": "preference",
    "knowledge": "knowledge",
    "reasoning": "reasoning",
    "safety": "safety",
    "vqa": "vqa",
}


SPLITS = {"safety": ("pairs", "bias", "toxicity"), "reasoning": ("math", "math", "coding")}
"""Of two domains: the prefix of an id, the split that it names, and the other one."""


def group_of(category: str) -> str:
    """Return the domain of a category of the data, or the category itself."""
    lowered = category.lower()
    return next((name for part, name in DOMAINS.items() if part in lowered), lowered)


def tag_of(group: str, label: str) -> str:
    """Return the published split of two domains, by the prefix of the id."""
    prefix, *names = SPLITS.get(group, ("", "", ""))
    return names[0] if label.lower().startswith(prefix) else names[1]


def convert(context: Context, row: Row) -> PreferencePair:
    """Convert a row to a preference pair."""
    better = row.text("better")
    if better not in ("Output1", "Output2"):
        raise RowError(f"column 'Better' is {better!r}, neither Output1 nor Output2")
    outputs = row.need("first"), row.need("second")
    chosen, rejected = outputs if better == "Output1" else outputs[::-1]
    group = group_of(row.text("category"))
    return context.pair(row, row.need("prompt"), chosen, rejected, group, tag_of(group, row.id))


ADAPTER = Adapter(
    kind="pairs",
    title="Multimodal RewardBench",
    licence="CC BY-NC 4.0",
    hub="syhuggingface/multimodal_rewardbench",
    citation=bibtex("multimodalrewardbench"),
    published=Published(4711, "4,711 pairs in the open release"),
    forms=(
        Form(
            need={"prompt": "Text", "first": "Output1", "second": "Output2"}
            | {"better": "Better", "category": "Category"},
            may={"id": "ID", "image": "Image"},
        ),
    ),
    convert=convert,
)
