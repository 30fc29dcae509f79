"""Any preference set with named columns, as JSONL or parquet.

Either `chosen` and `rejected`, or two `responses` with `preferred`, the index of the better one, or
VL-RewardBench's columns. A response may be a conversation, whose last message counts.

`cluster`: pairs that are resampled together. `set`: one better response against several worse ones
(best of k). `weight`: inverse inclusion probability, for a sample of a larger pool.
"""

import math
from typing import Any

from bon.benchmarks.base import IMAGE_COLUMNS, Adapter, Context, Form, Row, RowError
from bon.benchmarks.vl_rewardbench import ranked
from bon.core.records import PreferencePair


def convert(context: Context, row: Row) -> PreferencePair:
    """Convert a row to a preference pair."""
    if "ranking" in row.columns:
        chosen, rejected = ranked(row)
    elif "preferred" in row.columns:
        responses, preferred = row.get("responses"), str(row.get("preferred"))
        if not isinstance(responses, list) or len(responses) != 2:
            raise RowError("it does not have two responses")
        if preferred not in ("0", "1"):
            raise RowError(f"its preferred response is {row.get('preferred')!r}, not 0 or 1")
        chosen, rejected = responses[int(preferred)], responses[1 - int(preferred)]
    else:
        chosen, rejected = row.get("chosen"), row.get("rejected")
    texts = (
        last_message(row.get("prompt"), "prompt"),
        last_message(chosen, "better response"),
        last_message(rejected, "worse response"),
    )
    meta: dict[str, Any] = {role: row.text(role) for role in ("cluster", "set")}
    return context.pair(row, *texts, weight=weight_of(row), **meta)


def weight_of(row: Row) -> float | None:
    """Return the weight of a row, or None."""
    value = row.get("weight")
    if value is None:
        return None
    try:
        weight = float(value)
    except (TypeError, ValueError):
        weight = math.nan
    if not 0 < weight < math.inf:
        raise RowError(f"its weight {value!r} is not a number above 0")
    return weight


def last_message(value: Any, what: str) -> str:
    """Return a text, or the text of the last message of a conversation."""
    if isinstance(value, list) and value and isinstance(value[-1], dict):
        value = value[-1].get("content")
    if isinstance(value, list):  # Content parts: the texts among them.
        value = "".join(str(part.get("text") or "") for part in value if isinstance(part, dict))
    if not isinstance(value, str) or not value.strip():
        raise RowError(f"its {what} has no text")
    return value


MAY = {
    "id": "id",
    "image": IMAGE_COLUMNS,
    **{role: role for role in ("group", "tag", "cluster", "set", "weight")},
}
ADAPTER = Adapter(
    kind="pairs",
    title="Any preference set",
    licence="as the data",
    forms=(
        Form({"prompt": "prompt", "chosen": "chosen", "rejected": "rejected"}, MAY),
        Form({"prompt": "prompt", "responses": "responses", "preferred": "preferred"}, MAY),
        Form({"prompt": "query", "responses": "response", "ranking": "human_ranking"}, MAY),
    ),
    convert=convert,
)
