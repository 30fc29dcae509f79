"""What changed when judgements were asked for again in other batches."""

from bon.analysis.results.record import Estimate, Record


class RepeatCheck(Record):
    """One judgement of each of several items, asked for again with the same seed.

    `changed`: share of those that came back (`num_repeated`) with another verdict, choice or
    score. Of scores also the `largest` difference, and their standard deviation (`spread`) to
    compare it with. `errors` are of the repetition. `sentence` says it.
    """

    rewarder: str
    num_repeated: int
    errors: int
    changed: Estimate
    largest: float | None = None
    spread: float | None = None
    sentence: str
