"""recipe.yaml: which items to draw from which runs, and how people label them."""

from collections.abc import Iterator
from pathlib import Path
from textwrap import wrap
from typing import Any, Literal

import yaml
from pydantic import BaseModel, Field, model_validator

from bon.core.console import say
from bon.core.validation import validate
from bon.experiment.config import Strict
from bon.experiment.yamlfile import read_document

Strategy = Literal["gold", "popular-wrong", "near-miss", "control"]

STRATEGIES: dict[Strategy, str] = {
    "gold": "a right and a wrong answer",
    "popular-wrong": "a right answer and the wrong one that majority vote prefers",
    "near-miss": "of one policy, with lengths within 10 %",
    "control": "uniform over all pairs of a right and a wrong answer",
}

QUOTAS: dict[Strategy, float] = {
    "gold": 0.35, "popular-wrong": 0.25, "near-miss": 0.2, "control": 0.2,
}  # fmt: skip

REMOVED = ("cross-policy", "disagreement", "best-of-4", "ties")
"""Strategies of version 0.2; their quotas go to `gold`."""

TAGS = (
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


class Filters(Strict):
    """What is excluded before drawing; every filter reports its counts."""

    duplicates: bool = Field(True, description="questions with the same text and images")
    leaks: bool = Field(True, description="questions that the runs' reward benchmarks also contain")
    answer_visible: bool = Field(True, description="questions whose text states the answer")
    missing_images: bool = Field(True, description="questions with a missing image file")
    truncated: bool = Field(True, description="candidates cut off by max_tokens")
    unread: bool = Field(
        True, description="candidates without an extracted answer; if false, they count as wrong"
    )

    @model_validator(mode="before")
    @classmethod
    def _no_ensemble(cls, data: Any) -> Any:
        if isinstance(data, dict) and "ensemble" in data:
            if data["ensemble"]:
                raise ValueError("the filter `ensemble` was removed in bon 0.3: leave it out")
            data = {name: value for name, value in data.items() if name != "ensemble"}
        return data


class Annotating(Strict):
    """How items are assigned to annotators."""

    annotators_per_item: int = Field(2, ge=1, le=9, description="annotators per item")
    third_on_disagreement: bool = Field(True, description="add one annotator on disagreement")
    gold_checks: float = Field(
        0.05, ge=0, le=0.5, description="share of items with a known answer shown to everybody"
    )
    tags: tuple[str, ...] = Field(TAGS, description="error tags to choose from")
    guidelines: str = Field("", description="instructions that annotators read first")


class Curation(Strict):
    """The recipe."""

    runs: tuple[str, ...] = Field(min_length=1, description="run folders, relative to this file")
    seed: int = Field(0, ge=0, description="another seed draws another benchmark")
    items: int = Field(300, ge=10, description="total number of items to draw")
    quotas: dict[Strategy, float] = Field(
        QUOTAS, description="share of each strategy; shares sum to 1"
    )
    per_question: int = Field(
        2, ge=1, description="maximum items per strategy and question, except in the control"
    )
    held_out: float = Field(
        0.3,
        ge=0,
        le=0.9,
        description="share of the questions kept unpublished; bon curate predict measures on them",
    )
    filters: Filters = Field(Filters(), description="what is excluded before drawing")
    annotating: Annotating = Field(Annotating(), description="how items are labelled")

    @model_validator(mode="before")
    @classmethod
    def _replace_removed(cls, data: Any) -> Any:
        quotas = data.get("quotas") if isinstance(data, dict) else None
        if not isinstance(quotas, dict) or not any(name in quotas for name in REMOVED):
            return data
        kept = {name: share for name, share in quotas.items() if name not in REMOVED}
        shares = {name: quotas[name] for name in REMOVED if quotas.get(name)}
        if shares:
            say(f"quotas: {', '.join(shares)} were removed in bon 0.3; their share goes to gold")
            kept["gold"] = kept.get("gold", 0) + sum(shares.values())
        return {**data, "quotas": kept}

    @model_validator(mode="after")
    def _check_quotas(self) -> "Curation":
        total = sum(self.quotas.values())
        if min(self.quotas.values(), default=-1) < 0 or abs(total - 1) > 1e-6:
            raise ValueError(f"quotas add up to {total:g}, not 1")
        return self


def read_curation(path: Path) -> Curation:
    """Read and validate a recipe."""
    document = read_document(path)
    return validate(Curation, document.data, document.origin)


def recipe_text(recipe: Curation) -> str:
    """Return the recipe as YAML with every key and its description."""
    return "\n".join(["# What bon curate draws from which runs.", *_lines(recipe, "")]) + "\n"


def _lines(model: BaseModel, indent: str) -> Iterator[str]:
    width = 96 - len(indent)
    for name, field in type(model).model_fields.items():
        value = getattr(model, name)
        if not indent:
            yield ""
        yield from (f"{indent}# {line}" for line in wrap(field.description or "", width))
        if isinstance(value, BaseModel):
            yield f"{indent}{name}:"
            yield from _lines(value, indent + "  ")
        elif isinstance(value, dict):
            yield f"{indent}{name}:"
            for strategy, description in STRATEGIES.items():
                setting = f"{strategy}: {value.get(strategy, 0):g}"
                yield f"{indent}  {setting:<22}# {description}"
        else:
            plain = list(value) if isinstance(value, tuple) else value
            text = yaml.safe_dump({name: plain}, allow_unicode=True, width=width)
            yield from (indent + line for line in text.splitlines())
