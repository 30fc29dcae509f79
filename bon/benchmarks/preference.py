"""Any preference set with named columns, as JSONL or parquet.

Either `chosen` and `rejected`, or two `responses` with `preferred`, the place of the better
one (0 or 1). A response may also be a conversation, whose last message counts.

Three columns are for benchmarks drawn from a larger pool. `cluster`: pairs about one thing, which
are resampled together. `set`: one better response against each of the worse ones (best of k).
`weight`: how many pairs of the pool this one stands for, 1 / its inclusion probability.
"""

import math
from typing import Any

from bon.benchmarks.base import IMAGE_COLUMNS, Adapter, Context, Form, Row, RowError
from bon.core.records import PreferencePair


def convert(context: Context, row: Row) -> PreferencePair:
    """One row as a preference pair."""
    if "preferred" in row.columns:
        responses, preferred = row.get("responses"), str(row.get("preferred"))
        if not isinstance(responses, list) or len(responses) != 2:
            raise RowError("it does not have two responses")
        if preferred not in ("0", "1"):
            raise RowError(f"its preferred response is {row.get('preferred')!r}, not 0 or 1")
        chosen, rejected = responses[int(preferred)], responses[1 - int(preferred)]
    else:
        chosen, rejected = row.get("chosen"), row.get("rejected")
    return context.pair(
        row,
        prompt=last_message(row.get("prompt"), "prompt"),
        chosen=last_message(chosen, "better response"),
        rejected=last_message(rejected, "worse response"),
        cluster=row.text("cluster"),
        set=row.text("set"),
        weight=weight_of(row),
    )


def weight_of(row: Row) -> float | None:
    """The weight of a row; None where the dataset has none."""
    said = row.get("weight")
    if said is None:
        return None
    try:
        weight = float(said)
    except (TypeError, ValueError):
        weight = math.nan
    if not 0 < weight < math.inf:
        raise RowError(f"its weight {said!r} is not a number above 0")
    return weight


def last_message(value: Any, what: str) -> str:
    """A text, or the text of the last message of a conversation."""
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
    ),
    convert=convert,
)
