"""What each rewarder scored on a reward benchmark."""

from bon.analysis.results.record import Estimate, OutcomeRate, Record, Slice, Treatment


class VotesPoint(Record):
    """Benchmark accuracy when only k votes per order are used (mean over the choice of votes)."""

    k: int
    overall: Estimate
    macro: Estimate


class TreatmentResult(Record):
    """Benchmark accuracy under one way of counting what was not decided."""

    treatment: Treatment
    overall: Estimate
    macro: Estimate
    num_dropped: int


class BenchmarkResult(Record):
    """One rewarder (or baseline) on one reward benchmark.

    `acc_plus` is the share of clusters, where the benchmark names some, all of whose pairs are
    right (MM-RLHF-RewardBench's Acc+). `best_of_k` is the share of sets (pairs of one better
    response and each of several worse ones) in which it beats all. `natural` is the accuracy on the
    pool that weighted pairs were drawn from. `overall_from_groups` is the overall accuracy that the
    groups and their sizes imply.
    `per_judgement` is the share of right verdicts, each counted on its own, ties as wrong and
    without those that could not be read (Multimodal RewardBench 2's accuracy).
    `position_bias` is the share of decided verdicts for the response shown first minus the
    share for the second. `length_bias` is accuracy where the better response is the longer
    one minus accuracy where it is the shorter one; `picks_longer` the share of decided pairs
    in which the longer response was chosen.
    """

    benchmark: str
    rewarder: str
    num_pairs: int
    overall: Estimate
    macro: Estimate
    overall_without_leaks: Estimate | None
    macro_without_leaks: Estimate | None
    groups: tuple[Slice, ...]
    groups_without_leaks: tuple[Slice, ...] = ()
    tags: tuple[Slice, ...] = ()
    overall_from_groups: float | None
    overall_agrees: bool
    acc_plus: Estimate | None = None
    best_of_k: Estimate | None = None
    natural: Estimate | None = None
    per_judgement: Estimate | None = None
    votes: tuple[VotesPoint, ...] = ()
    consistency: Estimate | None
    position_bias: Estimate | None
    picks_longer: Estimate | None
    length_bias: Estimate | None
    outcomes: tuple[OutcomeRate, ...] = ()
    sensitivity: tuple[TreatmentResult, ...] = ()
