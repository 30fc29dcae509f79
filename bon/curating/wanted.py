"""recipe.yaml: what benchmark is wanted, of which runs. `bon curate init` writes a full one."""

from pathlib import Path
from typing import Literal

from pydantic import Field, model_validator

from bon.experiment.config import Strict
from bon.experiment.refusals import validate
from bon.experiment.yamlfile import read_document

Strategy = Literal[
    "gold",
    "popular-wrong",
    "near-miss",
    "cross-policy",
    "disagreement",
    "best-of-4",
    "ties",
    "control",
]

QUOTAS: dict[Strategy, float] = {
    "gold": 0.25,
    "popular-wrong": 0.2,
    "near-miss": 0.15,
    "disagreement": 0.1,
    "best-of-4": 0.1,
    "control": 0.2,
}


class Filters(Strict):
    """What is left out before anything is drawn; each is counted."""

    duplicates: bool = True
    leaks: bool = True
    truncated: bool = True
    answer_visible: bool = True
    missing_images: bool = True
    ensemble: tuple[str, ...] = Field(
        (),
        description="rewarders that must all be wrong for a pair to stay; not for the control",
    )


class Annotating(Strict):
    """How people are asked."""

    annotators_per_item: int = Field(2, ge=1, le=9)
    third_on_disagreement: bool = True
    gold_checks: float = Field(0.05, ge=0, le=0.5)
    tags: tuple[str, ...] = (
        "existence",
        "recognition",
        "attribute",
        "counting",
        "spatial",
        "reading",
        "knowledge",
        "reasoning step",
        "arithmetic",
        "format",
        "unsafe",
        "right answer, wrong reasoning",
        "other",
    )
    guidelines: str = ""


class Curation(Strict):
    """What is drawn from which runs."""

    runs: tuple[str, ...] = Field(min_length=1, description="run folders, relative to the recipe")
    seed: int = Field(0, ge=0)
    items: int = Field(300, ge=10, description="how many items are wanted in all")
    quotas: dict[Strategy, float] = Field(
        QUOTAS, description="the share of each strategy; they add up to 1"
    )
    per_question: int = Field(2, ge=1, description="items of one strategy per question, at most")
    held_out: float = Field(
        0.3, ge=0, le=0.9, description="share of the questions kept unpublished"
    )
    filters: Filters = Filters()
    annotating: Annotating = Annotating()

    @model_validator(mode="after")
    def _quotas_add_up(self) -> "Curation":
        total = sum(self.quotas.values())
        if min(self.quotas.values(), default=-1) < 0 or abs(total - 1) > 1e-6:
            raise ValueError(f"quotas add up to {total:g}, not 1")
        return self


def read_curation(path: Path) -> Curation:
    """The recipe, refused in one line where it is wrong."""
    document = read_document(path)
    return validate(Curation, document.data, document.origin)
