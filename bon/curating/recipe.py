"""recipe.yaml: which items to draw from which runs or sets, and how people label them."""

from pathlib import Path

import yaml
from pydantic import Field, model_validator

from bon.core.validation import Strict, validate
from bon.experiment.config import DatasetSpec
from bon.experiment.yamlfile import read_document

TAGS = (
    "existence", "recognition", "attribute", "counting", "spatial", "reading", "knowledge",
    "reasoning step", "arithmetic", "format", "unsafe", "right answer, wrong reasoning", "other",
)  # fmt: skip
_TEMPLATE = Path(__file__).with_name("recipe_template.yaml")


class Annotating(Strict):
    """How items are assigned to annotators."""

    annotators_per_item: int = Field(2, ge=1, le=9)
    tags: tuple[str, ...] = TAGS
    guidelines: str = ""


class Curation(Strict):
    """The recipe; recipe_template.yaml describes every key."""

    runs: tuple[str, ...] = ()
    pairs: tuple[DatasetSpec, ...] = ()
    seed: int = Field(0, ge=0)
    items: int = Field(300, ge=10)
    popular_wrong: float = Field(0.3, gt=0, lt=1)
    per_question: int = Field(2, ge=1)
    max_length_gap: float | None = Field(None, ge=0)
    held_out: float = Field(0.3, ge=0, le=0.9)
    annotating: Annotating = Annotating()

    @model_validator(mode="after")
    def _check(self) -> "Curation":
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
