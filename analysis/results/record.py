"""Base records, estimates and the options of an analysis."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

SCHEMA_VERSION = "1"

Leaks = Literal["in", "out"]
"""Whether leaked questions and leaked pairs are counted (`in`) or left out (`out`)."""


class Record(BaseModel):
    """A frozen record without NaN or infinity; unknown fields of other versions are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False, defer_build=True)


class PerAxis(Record):
    """A result for one policy and one axis of a benchmark."""

    policy: str
    benchmark: str
    axis: str


class Ranked(Record):
    """What may have the ranks `first` to `last`."""

    first: int
    last: int

    @property
    def places(self) -> str:
        """1–3, or 2."""
        return str(self.first) if self.first == self.last else f"{self.first}–{self.last}"


class Estimate(Record):
    """A number with its 95% interval; `n` units were resampled or counted, by `method`."""

    value: float | None
    low: float | None = None
    high: float | None = None
    n: int = 0
    method: str = ""


class Slice(Record):
    """Accuracy within one subject, difficulty, group or tag."""

    name: str
    accuracy: Estimate


class OutcomeRate(Record):
    """How often judgements ended with this outcome."""

    outcome: str
    count: int
    rate: Estimate


class Options(Record):
    """Settings of an analysis."""

    model_config = ConfigDict(extra="forbid")

    n: int | None = Field(None, description="headline n; None: as many as the pool holds")
    axis: str = Field("macro", description="primary x axis: macro, overall, natural or group:NAME")
    rules: tuple[str, ...] = Field((), description="selection rules; empty: all supported")
    draws: int = Field(2000, ge=100, description="bootstrap draws")
    subsets: int = Field(64, ge=4, description="subsets drawn where no exact value exists")
    seed: int = 0
    level: float = Field(0.95, gt=0.5, lt=1)
    ties: Literal["half", "wrong", "drop"] = "half"
    unparsed: Literal["wrong", "drop", "chance"] = "wrong"
    aggregate: str | None = Field(
        None, description="how the steps of process scores became one; None: as their cards say"
    )
    ensembles: dict[str, tuple[str, ...]] = Field(
        default_factory=dict, description="name of an ensemble: its members"
    )
