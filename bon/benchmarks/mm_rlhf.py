"""MM-RLHF-RewardBench: 170 pairs about 46 prompts.

Acc is over pairs, Acc+ over prompts all of whose pairs are right, so `meta["cluster"]` is the
prompt. The group is the folder of the image. Pairs about videos are excluded and counted.
"""

from typing import Any

from bon.benchmarks.base import Adapter, Context, Form, Published, Row, RowError, bibtex
from bon.core.records import PreferencePair

GROUPS = ("mcq", "long", "short", "safety", "video")


def group_of(media: Any) -> str:
    """Return the group that a media path names."""
    if isinstance(media, dict):
        media = media.get("path")
    lowered = media.lower() if isinstance(media, str) else ""
    return next((group for group in GROUPS if group in lowered), "other")


def convert(context: Context, row: Row) -> PreferencePair:
    """Convert a row to a preference pair."""
    if row.text("video"):
        raise RowError("it is about a video")
    prompt = row.need("prompt").replace("<image>\n", "").replace("<image>", "")
    group = row.text("group") or group_of(row.get("image") or row.values.get("image"))
    texts = prompt, row.need("chosen"), row.need("rejected")
    return context.pair(row, *texts, group=group, cluster=row.id)


ADAPTER = Adapter(
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
    convert=convert,
)
