"""What looks at rewarders settled while they were judged (`judging.decide`)."""

from typing import Literal

from bon.analysis.results.record import Estimate, Record

Decide = Literal["best", "beats-majority"]
"""Which rewarder is best, or which ones choose better than majority vote."""


class DecidedRewarder(Record):
    """One rewarder: what was settled of it, at which look, after how many questions and calls.

    `state`: `best` (all others were dropped), `dropped`, `above` or `below` majority vote, or `in`:
    not settled. `difference`: from `against` at that look; its interval holds at all looks and
    for all rewarders together. `calls_all`: about what all questions would have taken.
    """

    rewarder: str
    state: Literal["best", "dropped", "above", "below", "in"]
    look: int
    questions: int
    against: str
    difference: Estimate
    calls: int
    calls_all: int


class Decided(Record):
    """Looks at the rewarders on one policy's candidates.

    `taken` of `looks` looks were taken; `over`: all that will be. `level`: that everything
    settled is so, together. Accuracies elsewhere are conditional on what was settled: `caveat`.
    """

    policy: str
    decide: Decide
    looks: int
    taken: int
    over: bool
    level: float
    num_questions: int
    rewarders: tuple[DecidedRewarder, ...]
    calls: int
    calls_all: int
    sentence: str
    caveat: str
