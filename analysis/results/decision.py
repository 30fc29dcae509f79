"""The finding, and what follows from a run for the choice of a rewarder."""

from typing import Literal

from bon.analysis.results.record import Estimate, Leaks, PerAxis, Record
from bon.analysis.results.verdict import Word

Base = Literal["pass@1", "majority"]
"""What a gain is measured against: a random candidate, or majority vote."""
Answer = Literal["go", "no-go", "inconclusive"]


class Finding(Record):
    """The answer, in words: the verdict on the first benchmark.

    p_yes: P(yes), None where there is no verdict. support, caveats: sentences for and against it.
    would_change: what a larger study could show.
    """

    verdict: Word
    p_yes: float | None = None
    sentence: str
    support: tuple[str, ...] = ()
    caveats: tuple[str, ...] = ()
    would_change: tuple[str, ...] = ()
    benchmark: str | None = None
    axis: str | None = None


class Gate(Record):
    """`go` if the interval of the gain lies at or above `minimum`, `no-go` if all below."""

    policy: str
    rewarder: str
    over: Base
    minimum: float
    gain: Estimate
    answer: Answer
    sentence: str


class Change(Record):
    """A question on which a rewarder chose better or worse; shares of right choices."""

    id: str
    question: str
    before: float
    after: float


class RunDifference(Record):
    """Paired difference of a rewarder between two runs, and the questions that changed."""

    policy: str
    rewarder: str
    difference: Estimate
    changed: tuple[Change, ...]


class Task(Record):
    """One of several downstream tasks; `weight` is its share in means over all tasks."""

    name: str
    num_questions: int
    weight: float


class TaskAccuracy(Record):
    """Accuracy of a rewarder's or a baseline's choices on one task, or over all tasks."""

    task: str
    policy: str
    rewarder: str
    accuracy: Estimate


class TaskCorrelation(PerAxis):
    """r on one task, or of the weighted mean accuracy over all tasks."""

    task: str
    leaks: Leaks
    num_rewarders: int
    pearson: Estimate
    spearman: Estimate
    verdict: Word
    p_yes: float | None


class TaskReport(Record):
    """Several tasks in one study; `agree`: the verdict is the same on each."""

    tasks: tuple[Task, ...]
    accuracies: tuple[TaskAccuracy, ...]
    correlations: tuple[TaskCorrelation, ...]
    agree: bool
    sentence: str
