"""What speaks against a yes, in words: each of these alone is enough."""

from bon.analysis.results import Apart, BetterHalf, Correlation, SmallestSet
from bon.analysis.results.phrasing import (
    bounded,
    coefficient,
    names,
    percent,
    tested,
)


def objections(c: Correlation) -> list[str]:
    """Why r, however high, does not say yes; nothing where it may."""
    said = []
    if c.carried_by is not None:
        said.append(c.influence_sentence)
    elif c.smallest_set is not None and c.smallest_set.carries:
        said.append(_without(c.smallest_set, c.num_rewarders))
    if c.better_half is not None and not c.better_half.holds:
        said.append(within_better_half(c.better_half))
    if c.carried_by_family is not None:
        left = next(x for x in c.leave_family_out if x.left_out == c.carried_by_family)
        said.append(
            f"Without the family {left.left_out}, r falls to {tested(left.pearson, left.p_value)}."
        )
    if c.apart is not None:
        said.append(_far_below(c.apart, c.num_rewarders))
    if c.clusters is not None:
        upper = c.clusters.upper
        said.append(
            f"Two clusters produce r: {names(list(upper))} against the other "
            f"{len(c.clusters.lower)}; within them, r is "
            f"{tested(c.clusters.within, c.clusters.p_value)}."
        )
    if c.families is not None and not enough_bases(c):
        said.append(c.families.sentence)
    return said


def enough_bases(c: Correlation) -> bool:
    """Whether the rewarders are of enough bases for an interval of r."""
    return c.families is None or c.families.enough


def within_better_half(half: BetterHalf) -> str:
    """What holds among the better rewarders, and what so narrow a range leads to expect."""
    found = half.pearson
    expected = ""
    if half.expected is not None:
        expected = (
            f"; r over all would lead to expect {coefficient(half.expected)} "
            "over their narrower range"
        )
    return (
        f"Among the {half.num_rewarders} better rewarders, from {percent(half.edge)} on, r is "
        f"{bounded(found)}{expected}."
    )


def _far_below(found: Apart, rewarders: int) -> str:
    verb = "stands" if len(found.rewarders) == 1 else "stand"
    return (
        f"{names(list(found.rewarders))} {verb} far below the other "
        f"{rewarders - len(found.rewarders)} rewarders, so r says how many such rewarders there "
        f"are and has no interval; among the others it is {bounded(found.others)}."
    )


def _without(found: SmallestSet, rewarders: int) -> str:
    count = len(found.left_out)
    falls = f"r falls to {tested(found.pearson, found.p_value)}"
    if found.pearson is None:
        falls = "there is no r"
    return (
        f"{count} of {rewarders} rewarders carry it: without {names(list(found.left_out))} {falls}."
    )
