"""Accuracies: candidates of a policy, choices of a rewarder, preference pairs, comparisons."""

from typing import Literal

from bon.analysis.results.record import Estimate, OutcomeRate, Ranked, Record, Slice

# ------------------------------------------------------------------ policies


class CandidateFile(Record):
    """Accuracy of the candidates of one index (for an import: of one file)."""

    index: int
    label: str
    accuracy: Estimate
    unparsed: Estimate


class PolicyResult(Record):
    """A policy without rewarders; `majority` and `oracle` at n.

    `content`: content keys of a sample of its questions and their candidates. Questions fall into
    folds by their content keys.
    """

    policy: str
    num_questions: int
    questions_by_fold: tuple[int, ...]
    num_candidates: int
    n: int
    pass_at_1: Estimate
    majority: Estimate
    oracle: Estimate
    pass_at_1_without_leaks: Estimate | None
    majority_without_leaks: Estimate | None
    oracle_without_leaks: Estimate | None
    unparsed: Estimate
    errors: Estimate
    unanimous: Estimate
    correct_per_question: tuple[int, ...]
    files: tuple[CandidateFile, ...] = ()
    content: tuple[str, ...] = ()


class ReaderScore(Record):
    """One answer extractor over all answers; `guessing`: with random letters for unread ones."""

    reader: str
    accuracy: Estimate
    guessing: float
    num_unread: int


class ReadDifferently(Record):
    """An answer from which two extractors read different letters."""

    id: str
    index: int
    answer: str
    letters: dict[str, str | None]
    ending: str


class Regraded(Record):
    """The output of `bon regrade --json`; declined answers state no letter."""

    num_questions: int
    num_answers: int
    num_errors: int
    num_declined: int
    readers: tuple[ReaderScore, ...]
    differ: tuple[ReadDifferently, ...]


# ------------------------------------------------------------------ Best-of-N


Column = Literal["subject", "difficulty", "num_options"]


class QuestionSlice(Slice):
    """Accuracy within one subject, difficulty or number of options."""

    by: Column


class CurvePoint(Record):
    """Accuracy at n candidates; `estimated`: size of the sample of questions that it rests on."""

    n: int
    accuracy: Estimate
    estimated: int | None = None


VersusMajority = Literal["above", "below", "unclear", "is"]


class BestOfN(Record):
    """One rewarder under one rule on the candidates of one policy.

    `exact`: values are expectations over all subsets. `scale` is the unit of the scores that weight
    a vote, `unit` of those in a panel. `right_by_fold`: sums of accuracy over the questions of each
    fold, at the headline rule. `over_optimised`: accuracy falls from its peak at a smaller n, with
    its interval.
    """

    policy: str
    rewarder: str
    rule: str
    headline: bool
    n: int
    num_questions: int
    right_by_fold: tuple[float, ...]
    curve: tuple[CurvePoint, ...]
    exact: bool
    scale: float | None = None
    unit: float | None = None
    estimated: int | None = None
    accuracy: Estimate
    gain: Estimate
    versus_majority: Estimate
    verdict_versus_majority: VersusMajority
    slices: tuple[QuestionSlice, ...] = ()
    over_optimised: bool
    undecided: Estimate

    @property
    def raced(self) -> bool:
        """Whether smaller n are estimated from fewer questions than the headline."""
        basis = self.estimated or self.num_questions
        return self.headline and any((p.estimated or basis) < basis for p in self.curve)


class DepthCurve(Record):
    """How far n may go with one rewarder (`judging.deep`).

    `peak`: n of the highest accuracy. `most`: n beyond which accuracy only falls, the upper bound
    of the peak; None where the peak may lie at or beyond the last n.
    """

    policy: str
    rewarder: str
    num_questions: int
    points: tuple[CurvePoint, ...]
    peak: Estimate
    most: int | None
    sentence: str


# ------------------------------------------------------------------ preference pairs


class BenchmarkResult(Record):
    """One rewarder (or baseline) on one reward benchmark.

    - `decided`: overall accuracy on the pairs with a decided verdict.
    - `acc_plus`: share of clusters all of whose pairs are right (MM-RLHF-RewardBench's Acc+).
    - `best_of_k`: share of sets in which the better response beats all others.
    - `natural`: accuracy on the pool that weighted pairs were drawn from.
    - `per_judgement`: share of right verdicts, ties wrong, unread ones left out (Multimodal
      RewardBench 2's accuracy).
    - `position_bias`: share of decided verdicts for the first response minus the second.
    - `length_bias`: accuracy where the better response is the longer one minus the rest.
    """

    benchmark: str
    rewarder: str
    num_pairs: int
    overall: Estimate
    macro: Estimate
    decided: Estimate
    groups: tuple[Slice, ...]
    acc_plus: Estimate | None = None
    best_of_k: Estimate | None = None
    natural: Estimate | None = None
    per_judgement: Estimate | None = None
    consistency: Estimate | None
    position_bias: Estimate | None
    length_bias: Estimate | None
    outcomes: tuple[OutcomeRate, ...] = ()


class Breakdown(Record):
    """One cell of a table of accuracies on a benchmark: a row on the pairs of a column.

    `by`: what the table is by: `tag`, `words of a response`, `size`, `protocol of MODEL`, `votes`,
    … `difference`: of accuracies, paired. `num_pairs`: of the column; `accuracy.n` of them count.
    """

    benchmark: str
    by: str
    row: str
    column: str
    num_pairs: int
    accuracy: Estimate
    difference: bool


# ------------------------------------------------------------------ comparisons

Compared = Literal["best_of_n", "benchmark"]


class Comparison(Record):
    """Paired difference a − b, with p corrected over all pairs of its table (Holm)."""

    table: Compared
    policy: str | None
    benchmark: str | None
    a: str
    b: str
    difference: Estimate
    p_value: float | None
    p_adjusted: float | None
    distinguishable: bool


class RankBand(Ranked):
    """The ranks that a rewarder may have on a policy or on a benchmark."""

    policy: str | None
    benchmark: str | None = None
    rewarder: str
