"""Reward benchmarks of text whose rows hold several responses: every better one with every worse.

- `reward_bench_2`: one right response against three wrong ones; the set is won if it beats all
  (`best_of_k`). Its subset Ties has several right ones.
- `rm_bench`: three styles of a right and of a wrong response; the tag says which side is styled up:
  easy (the right one), normal (neither), hard (the wrong one).
- `judgebench`: two responses and the label A>B or B>A; splits `gpt` and `claude`.
- `ppe`: two responses and the winner by people (Chatbot Arena). Ties are left out.
- `omni_rewardbench`: two responses and a criterion, which is part of the prompt. Ties are left out.
"""

import re
from itertools import product
from types import MappingProxyType

from bon.benchmarks.base import Adapter, Context, Form, Published, Row, RowError, bibtex
from bon.core.records import PreferencePair

TAGS = ("hard", "normal", "easy")


def _lists(context: Context, row: Row) -> list[PreferencePair]:
    """Convert lists of better and of worse responses."""
    chosen, rejected = row.get("chosen"), row.get("rejected")
    if not isinstance(chosen, list) or not isinstance(rejected, list) or not chosen or not rejected:
        raise RowError("its responses are not two lists")
    styled = row.columns.get("styles") == "yes"
    pairs = []
    for (i, better), (j, worse) in product(enumerate(chosen), enumerate(rejected)):
        tag = TAGS[(i > j) - (i < j) + 1] if styled else ""
        texts, own = (str(better), str(worse)), "" if styled else f"{row.id}/{i}"
        pairs.append(
            context.pair(row, row.need("prompt"), *texts, tag=tag, cluster=row.id, set=own)
        )
    return pairs


def _two(context: Context, row: Row) -> PreferencePair:
    """Convert two responses and a label that names the better one."""
    prompt, label = row.need("prompt"), row.text("label").strip()
    better = re.fullmatch(r"(A>B)|(B>A)|(?:response|model)?_?(?:([1Aa])|([2Bb]))", label)
    if better is None:
        raise RowError(f"its label {label!r} names neither response")
    if criterion := row.text("criterion").strip():
        prompt = f"{prompt}\n\nJudge by this criterion alone: {criterion}"
    texts = row.need("first"), row.need("second")
    first = bool(better[1] or better[3])
    return context.pair(row, prompt, *(texts if first else texts[::-1]))


_LISTS = {"prompt": "prompt", "chosen": "chosen", "rejected": "rejected"}
ADAPTERS = MappingProxyType(
    {
        "reward_bench_2": Adapter(
            kind="pairs", title="RewardBench 2", licence="not stated", convert=_lists,
            hub="allenai/reward-bench-2",
            citation=bibtex("reward_bench_2"),
            forms=(Form(_LISTS, {"id": "id", "group": "subset"}),),
        ),
        "rm_bench": Adapter(
            kind="pairs", title="RM-Bench", licence="not stated", convert=_lists, split="train",
            hub="THU-KEG/RM-Bench",
            citation=bibtex("rm_bench"),
            forms=(Form(_LISTS, {"id": "id", "group": "domain", "styles": "yes"}),),
        ),
        "judgebench": Adapter(
            kind="pairs", title="JudgeBench", licence="not stated", convert=_two, split="gpt",
            hub="ScalerLab/JudgeBench", published=Published(350, "its gpt split", 0),
            citation=bibtex("judgebench"),
            forms=(
                Form(
                    {"prompt": "question", "first": "response_A", "second": "response_B",
                     "label": "label"},
                    {"id": "pair_id", "group": "source"},
                ),
            ),
        ),
        "ppe": Adapter(
            kind="pairs", title="PPE, human preferences", licence="prompts CC BY 4.0", convert=_two,
            hub="lmarena-ai/PPE-Human-Preference-V1",
            published=Published(16038, "ties among them, which are left out", 0),
            citation=bibtex("ppe"),
            forms=(
                Form(
                    {"prompt": "prompt", "first": "response_1", "second": "response_2",
                     "label": "winner"},
                    {"id": "question_id", "group": "language"},
                ),
            ),
        ),
        "omni_rewardbench": Adapter(
            kind="pairs", title="Omni-RewardBench, text and image to text", licence="CC BY-NC 4.0",
            convert=_two, hub="HongbangYuan/OmniRewardBench",
            citation=bibtex("omni_rewardbench"),
            config=lambda config: config or "text_image_to_text",
            forms=(
                Form(
                    {"prompt": "prompt", "first": "response1", "second": "response2",
                     "label": "criteria_preference"},
                    {"id": "id", "image": "image", "criterion": "criteria"},
                ),
            ),
        ),
    }
)  # fmt: skip
"""By name."""
