"""recipe.yaml: which items to draw from which runs or sets, and how people label them."""

from pathlib import Path
from typing import Literal, get_args

import yaml
from pydantic import Field, model_validator

from bon.core.validation import validate
from bon.experiment.config import DatasetSpec, Strict
from bon.experiment.yamlfile import read_document

Strategy = Literal["gold", "popular-wrong", "near-miss", "control"]

MEANINGS: dict[str, str] = {
    "gold": "a right and a wrong answer",
    "popular-wrong": "a right answer and the wrong one that majority vote prefers",
    "near-miss": "of one policy, with lengths within 10%",
    "control": "uniform over all pairs of a right and a wrong answer",
}

STRATEGIES = get_args(Strategy)

QUOTAS: dict[Strategy, float] = {
    "gold": 0.35, "popular-wrong": 0.25, "near-miss": 0.2, "control": 0.2,
}  # fmt: skip

TAGS = (
    "existence", "recognition", "attribute", "counting", "spatial", "reading", "knowledge",
    "reasoning step", "arithmetic", "format", "unsafe", "right answer, wrong reasoning", "other",
)  # fmt: skip
_TEMPLATE = Path(__file__).with_name("recipe_template.yaml")


class Filters(Strict):
    """What is excluded before drawing; every filter reports its counts."""

    duplicates: bool = True
    leaks: bool = True
    answer_visible: bool = True
    missing_images: bool = True
    truncated: bool = True
    unread: bool = True


class Annotating(Strict):
    """How items are assigned to annotators; `grades` are of single answers (keys 1 to 9)."""

    annotators_per_item: int = Field(2, ge=1, le=9)
    third_on_disagreement: bool = True
    gold_checks: float = Field(0.05, ge=0, le=0.5)
    tags: tuple[str, ...] = TAGS
    grades: tuple[str, ...] = Field(("right", "wrong"), min_length=2, max_length=9)
    guidelines: str = ""


class Curation(Strict):
    """The recipe; recipe_template.yaml describes every key."""

    runs: tuple[str, ...] = ()
    pairs: tuple[DatasetSpec, ...] = ()
    seed: int = Field(0, ge=0)
    items: int = Field(300, ge=10)
    quotas: dict[Strategy, float] = QUOTAS
    per_question: int = Field(2, ge=1)
    held_out: float = Field(0.3, ge=0, le=0.9)
    filters: Filters = Filters()
    annotating: Annotating = Annotating()

    @model_validator(mode="after")
    def _check(self) -> "Curation":
        total = sum(self.quotas.values())
        if min(self.quotas.values(), default=-1) < 0 or abs(total - 1) > 1e-6:
            raise ValueError(f"quotas add up to {total:g}, not 1")
        if bool(self.runs) == bool(self.pairs):
            raise ValueError("give `runs` or `pairs` to draw from, and not both")
        return self


def read_curation(path: Path) -> Curation:
    """Read and validate a recipe."""
    document = read_document(path)
    return validate(Curation, document.data, document.origin)


def recipe_text(recipe: Curation) -> str:
    """Return a recipe with these sources, items, seed and held-out share, every key described."""
    pairs = [spec.model_dump(mode="json", exclude_unset=True) for spec in recipe.pairs]
    sources = {
        name: "\n" + yaml.safe_dump(rows, allow_unicode=True, sort_keys=False) if rows else " []"
        for name, rows in (("runs", list(recipe.runs)), ("pairs", pairs))
    }
    values = {name: getattr(recipe, name) for name in ("items", "seed", "held_out")}
    return _TEMPLATE.read_text("utf-8").format(**sources, **values)
