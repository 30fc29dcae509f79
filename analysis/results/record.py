"""What every part of the results is made of: records, estimates, slices, and the options."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

SCHEMA_VERSION = "1"


Leaks = Literal["in", "out"]
"""Whether leaked questions and leaked pairs were counted (`in`) or left out (`out`)."""


Treatment = Literal["headline", "drop", "wrong", "chance", "official"]
"""How undecided outcomes are counted. See docs/statistics.md, "Outcomes"."""


class Record(BaseModel):
    """Frozen, closed to unknown fields, and without NaN or infinity."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, defer_build=True)


class Estimate(Record):
    """A number estimated from samples; `low` and `high` bound its 95 % interval.

    `n` is how many of the things that were resampled or counted it rests on (questions,
    pairs or rewarders), `method` says how the interval was made.
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    n: int = 0
    method: str = ""


class Options(Record):
    """How an analysis was asked for. The defaults are the ones that the docs explain."""

    n: int | None = Field(None, description="headline n; None: as many as the pool holds")
    axis: str = Field("macro", description="primary x axis: macro, overall, natural or group:NAME")
    rules: tuple[str, ...] = Field((), description="selection rules; empty: all supported")
    draws: int = Field(2000, ge=100, description="bootstrap draws")
    permutations: int = Field(20_000, ge=100, description="sampled permutations, R > 9")
    subsets: int = Field(64, ge=4, description="subsets drawn where no exact value exists")
    seed: int = 0
    level: float = Field(0.95, gt=0.5, lt=1)
    ties: Literal["half", "wrong", "drop"] = "half"
    unparsed: Literal["wrong", "drop", "chance"] = "wrong"
    aggregate: str | None = Field(
        None, description="how the steps of process scores became one; None: as their cards say"
    )
    target_r: float | None = Field(
        None, gt=0, lt=1, description="the r that `needed` plans to show; None: the verdict's line"
    )
    covariates: bool = Field(
        True, description="let what is known without a judge sharpen what a sample is judged for"
    )
    ensembles: dict[str, tuple[str, ...]] = Field(
        default_factory=dict, description="name of an ensemble: its members"
    )


class Slice(Record):
    """An accuracy within one subject, difficulty, group or tag."""

    name: str
    accuracy: Estimate


class OutcomeRate(Record):
    """How often a judgement ended this way."""

    outcome: str
    count: int
    rate: Estimate
