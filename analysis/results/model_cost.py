"""What each model of a run cost, as it was measured."""

from typing import Literal

from bon.analysis.results.record import Record


class ModelCost(Record):
    """Per 1,000 judgements of a rewarder or candidates of a policy, of which there are `number`.

    `seconds` of the worker that held the model and had something to do, times its GPUs where it
    had any: `unit` says which. `prompt_tokens` are those that each was asked with (several votes
    or candidates on one prompt may share its reading), `reply_tokens` those written. `dollars`
    are None where the model has no price. What no engine or earlier version told is None:
    `cache_hit_rate`, the share of prompt tokens that the engine still had; `waited`, the share of
    the worker's time that it had nothing to do between batches; `loading`, seconds in all.
    """

    model: str
    role: Literal["policy", "rewarder"]
    number: int
    unit: Literal["GPU-seconds", "worker seconds"]
    seconds: float | None = None
    prompt_tokens: float
    reply_tokens: float
    dollars: float | None = None
    cache_hit_rate: float | None = None
    waited: float | None = None
    loading: float | None = None
