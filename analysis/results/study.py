"""What was run and how: counted or copied, mostly without estimation."""

from typing import Literal

from pydantic import Field

from bon.analysis.results.record import Estimate, Record


class RunInfo(Record):
    """The identity of a run; `state`: the commit of its database that these results are of."""

    name: str = ""
    created: str = ""
    state: str = ""
    bon_version: str = ""
    seed: int | None = None
    downstream: tuple[str, ...] = ()
    benchmarks: tuple[str, ...] = ()


class ModelShare(Record):
    """Progress of one model.

    `wanted`, `have`: a policy's candidates, or a rewarder's items (pairs and questions judged in
    full). `errors` of its `rows` are only retried with `--retry-errors`, but for those `unanswered`
    by an endpoint, which are no answers. `failed`: why the model was stopped.
    """

    model: str
    role: Literal["policy", "rewarder"]
    wanted: int
    have: int
    rows: int
    errors: int
    unanswered: int = 0
    failed: str = ""


class RunCompleteness(Record):
    """Whether a run holds everything its experiment plans; `missing` in words."""

    complete: bool
    models: tuple[ModelShare, ...] = ()
    missing: tuple[str, ...] = ()


class Provenance(Record):
    """An external source: a dataset, a model, a prompt, a program."""

    kind: str
    name: str
    revision: str = ""
    details: dict[str, str] = Field(default_factory=dict)


Orders = Literal["both", "one", "none"]


class RewarderProtocol(Record):
    """Votes and orders of one rewarder on either axis, as found in its judgements."""

    rewarder: str
    votes_pairs: int
    votes_candidates: int
    orders_pairs: Orders
    orders_candidates: Orders
    same: bool


class StudyProtocol(Record):
    """How the numbers were produced; `differences` between the axes are caveats."""

    n: int
    num_candidates: dict[str, int]
    axis: str
    ties: str
    unparsed: str
    rewarders: tuple[RewarderProtocol, ...] = ()
    differences: tuple[str, ...] = ()


class Counts(Record):
    """Sizes of the study."""

    questions: int = 0
    candidates: int = 0
    pairs: int = 0
    rewarders: int = 0
    judgements: int = 0
    calls_made: int = Field(0, description="judge calls on both axes")


class RewarderInfo(Record):
    """A rewarder; baselines have kind `baseline` and no judgements.

    `imported`: its scores come from files, so what they cost is not known.
    """

    rewarder: str
    kind: str
    family: str = ""
    maker: str = ""
    size: float | None = None
    handicap: str = ""
    baseline: bool = False
    imported: bool = False
    num_judgements: int = 0
    cost: float | None = None
    seconds: float | None = None


class JudgeCalls(Record):
    """Judge calls of one rewarder.

    `*_candidates` rest on `rated_questions`: all that were judged or, with early stopping, the
    random sample judged in full. `position_bias`: (first − second) / (first + second).
    """

    rewarder: str
    calls_pairs: int
    calls_candidates: int
    rated_questions: int = 0
    consistency_candidates: Estimate | None = None
    position_bias_candidates: Estimate | None = None


class LeakReport(Record):
    """Questions that are in both the reward benchmark and the downstream set."""

    num_questions: int
    num_pairs: int
    question_ids: tuple[str, ...] = ()


class RuleSupport(Record):
    """Whether a rule can be replayed from the judgements."""

    policy: str
    rewarder: str
    rule: str
    supported: bool
    reason: str = ""


class ModelCost(Record):
    """Measured cost per 1,000 judgements or candidates, of which there are `number`.

    `waited`: share of the worker's time without work; `loading`: seconds in all; None where the
    engine or an earlier version did not report a value.
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
