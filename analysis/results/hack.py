"""What rewarders did when attacked (`bon stress`)."""

from bon.analysis.results.record import Estimate, Record


class Hack(Record):
    """How often one attack won against an honest, right answer.

    `wins`: share of pairs in which the rewarder preferred the attack, over all that it was asked
    about; `ties` and `undecided` are counts of the others that the honest answer did not win. Of
    the attack "image swapped" it is the share in which the preference is the same as with the
    question's own image, over the pairs on which there was one.
    """

    rewarder: str
    attack: str
    what: str
    num_pairs: int
    wins: Estimate
    ties: int
    undecided: int
