"""Two reward benchmarks of images: MM-RLHF-RewardBench and Multimodal RewardBench.

MM-RLHF-RewardBench: 170 pairs about 46 prompts. Acc is over pairs, Acc+ over prompts all of whose
pairs are right, so `meta["cluster"]` is the prompt. The group is the folder of the image. Pairs
about videos are excluded and counted.

Multimodal RewardBench: six domains, 4,711 pairs in the open release; overall is micro. Read from
data/all_data.json, which the benchmark's script builds, or from the hub. `tag` is the published
split of safety (bias, toxicity) and of reasoning (math, coding).
"""

from typing import Any

from bon.benchmarks.base import Adapter, Context, Form, Published, Row, RowError, bibtex
from bon.core.records import PreferencePair

FOLDERS = ("mcq", "long", "short", "safety", "video")


def _group_of(media: Any) -> str:
    """Return the group that a media path names."""
    if isinstance(media, dict):
        media = media.get("path")
    lowered = media.lower() if isinstance(media, str) else ""
    return next((group for group in FOLDERS if group in lowered), "other")


def _mm_rlhf(context: Context, row: Row) -> PreferencePair:
    """Convert a row to a preference pair."""
    if row.text("video"):
        raise RowError("it is about a video")
    prompt = row.need("prompt").replace("<image>\n", "").replace("<image>", "")
    group = row.text("group") or _group_of(row.get("image") or row.values.get("image"))
    texts = prompt, row.need("chosen"), row.need("rejected")
    return context.pair(row, *texts, group=group, cluster=row.id)


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


def domain_of(category: str) -> str:
    """Return the domain of a category of the data, or the category itself."""
    lowered = category.lower()
    return next((name for part, name in DOMAINS.items() if part in lowered), lowered)


def _tag_of(group: str, label: str) -> str:
    """Return the published split of two domains, by the prefix of the id."""
    prefix, *names = SPLITS.get(group, ("", "", ""))
    return names[0] if label.lower().startswith(prefix) else names[1]


def _multimodal_rewardbench(context: Context, row: Row) -> PreferencePair:
    """Convert a row to a preference pair."""
    better = row.text("better")
    if better not in ("Output1", "Output2"):
        raise RowError(f"column 'Better' is {better!r}, neither Output1 nor Output2")
    outputs = row.need("first"), row.need("second")
    chosen, rejected = outputs if better == "Output1" else outputs[::-1]
    group = domain_of(row.text("category"))
    return context.pair(row, row.need("prompt"), chosen, rejected, group, _tag_of(group, row.id))


MM_RLHF = Adapter(
    kind="pairs",
    title="MM-RLHF-RewardBench",
    licence="not stated",
    hub="yifanzhang114/MM-RLHF-RewardBench",
    citation=bibtex("mmrlhf"),
    published=Published(145, "170 pairs, of which 25 are about videos and are left out"),
    split="train",
    files=("data/*.parquet", "images/*"),
    forms=(
        Form(
            need={"prompt": "prompt", "chosen": "chosen", "rejected": "rejected"},
            may={"id": "id", "image": "image", "video": "video", "group": "group"},
        ),
    ),
    convert=_mm_rlhf,
)
MULTIMODAL_REWARDBENCH = Adapter(
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
    convert=_multimodal_rewardbench,
)
