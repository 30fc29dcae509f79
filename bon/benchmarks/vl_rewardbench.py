"""VL-RewardBench: 1,250 preference pairs in three groups (1,247 in a later revision).

25 ids occur twice with different responses, so ids are not keys.
"""

from bon.benchmarks.base import Adapter, Context, Form, Published, Row, RowError, bibtex
from bon.core.records import PreferencePair

GROUPS = {
    "hallucination_pair": "hallucination",
    "rlaif-v": "hallucination",
    "rlhf-v": "hallucination",
    "mathverse": "reasoning",
    "mmmu_pro": "reasoning",
}


def group_of(label: str) -> str:
    """Return the group of an id; ids without a known prefix are general."""
    lowered = label.lower()
    return next((group for start, group in GROUPS.items() if lowered.startswith(start)), "general")


def convert(context: Context, row: Row) -> PreferencePair:
    """Convert a row to a preference pair."""
    if "ranking" in row.columns:
        chosen, rejected = ranked(row)
    else:
        chosen, rejected = row.need("chosen"), row.need("rejected")
    prompt = row.need("prompt").replace("<image>\n", "").replace("<image>", "")
    return context.pair(row, prompt, chosen, rejected, row.text("group") or group_of(row.id))


def ranked(row: Row) -> tuple[str, str]:
    """Return the better and the worse of two responses by rank (0 is best)."""
    responses, ranks = row.get("responses"), row.get("ranking")
    if not isinstance(responses, list) or len(responses) != 2 or not all(responses):
        raise RowError("it does not have two responses")
    if not isinstance(ranks, list) or sorted(map(str, ranks)) != ["0", "1"]:
        raise RowError(f"its ranking is {ranks!r}, neither [0, 1] nor [1, 0]")
    best = 0 if str(ranks[0]) == "0" else 1
    return str(responses[best]), str(responses[1 - best])


MAY = {"id": "id", "image": "image", "group": "group", "tag": "query_source"}
ADAPTER = Adapter(
    kind="pairs",
    title="VL-RewardBench",
    licence="MIT (its page: research use only)",
    hub="MMInstruction/VL-RewardBench",
    citation=bibtex("vlrewardbench"),
    published=Published(1250, "1,250 pairs; 1,247 in the later revision"),
    forms=(
        Form({"prompt": "query", "responses": "response", "ranking": "human_ranking"}, MAY),
        Form({"prompt": "prompt", "chosen": "chosen", "rejected": "rejected"}, MAY),
    ),
    convert=convert,
)
