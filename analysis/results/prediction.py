"""What studies of some size would say."""

from bon.analysis.results.record import Record


class NeededRow(Record):
    """What simulated studies of one size say: shares of Yes, of at least Probably, and of No."""

    num_rewarders: int
    num_bases: int
    num_questions: int
    num_pairs: int
    yes: float
    probably: float
    no: float


class Needed(Record):
    """What a new study would say: the first of `rows` is of this size, the others are larger.

    True r is drawn from its posterior. `best`: what raises Probably most, empty if nothing does.
    """

    benchmark: str
    rows: tuple[NeededRow, ...]
    best: str = ""
    sentence: str
