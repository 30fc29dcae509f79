"""recipe.yaml: what benchmark is wanted, of which runs. `bon curate init` writes a full one."""

from collections.abc import Iterator
from pathlib import Path
from textwrap import wrap
from typing import Literal

import yaml
from pydantic import BaseModel, Field, model_validator

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

STRATEGIES: dict[Strategy, str] = {
    "gold": "a right and a wrong answer",
    "popular-wrong": "a right answer and the wrong one that majority vote prefers",
    "near-miss": "of one policy, with lengths within 10 %",
    "cross-policy": "of two policies",
    "disagreement": "about which the run's rewarders disagree most",
    "best-of-4": "one right and three wrong answers, with different letters where there are",
    "ties": "two right answers",
    "control": "uniform over all pairs of a right and a wrong answer",
}
"""What each strategy draws."""

QUOTAS: dict[Strategy, float] = {
    "gold": 0.25,
    "popular-wrong": 0.2,
    "near-miss": 0.15,
    "cross-policy": 0.0,
    "disagreement": 0.1,
    "best-of-4": 0.1,
    "ties": 0.0,
    "control": 0.2,
}


class Filters(Strict):
    """What is left out before anything is drawn; each is counted."""

    duplicates: bool = Field(True, description="questions with the same text and images")
    leaks: bool = Field(True, description="questions that the runs' reward benchmarks hold too")
    answer_visible: bool = Field(True, description="questions whose text says the answer")
    missing_images: bool = Field(True, description="questions of which an image file is gone")
    truncated: bool = Field(True, description="candidates cut off by max_tokens")
    unread: bool = Field(
        True, description="candidates without an answer that could be read; else they are wrong"
    )
    ensemble: tuple[str, ...] = Field(
        (),
        description="rewarders that must all be wrong for a pair to stay; not for the control. "
        "They are not ranked by the benchmark.",
    )


class Annotating(Strict):
    """How people are asked."""

    annotators_per_item: int = Field(2, ge=1, le=9, description="how many people see an item")
    third_on_disagreement: bool = Field(True, description="one more where they disagree")
    gold_checks: float = Field(
        0.05, ge=0, le=0.5, description="share of items shown whose answer is known"
    )
    tags: tuple[str, ...] = Field(
        (
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
        ),
        description="kinds of error to choose among",
    )
    guidelines: str = Field("", description="what annotators read first")


class Curation(Strict):
    """What is drawn from which runs."""

    runs: tuple[str, ...] = Field(min_length=1, description="run folders, relative to this file")
    seed: int = Field(0, ge=0, description="another seed draws another benchmark")
    items: int = Field(300, ge=10, description="how many items are wanted in all")
    quotas: dict[Strategy, float] = Field(
        QUOTAS, description="the share of each strategy; they add up to 1"
    )
    per_question: int = Field(
        2, ge=1, description="items of one strategy per question, at most; not of the control"
    )
    held_out: float = Field(
        0.3,
        ge=0,
        le=0.9,
        description="share of the questions kept unpublished; bon curate predict measures on them",
    )
    filters: Filters = Field(Filters(), description="what is left out before anything is drawn")
    annotating: Annotating = Field(Annotating(), description="how people are asked")

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


def recipe_text(recipe: Curation) -> str:
    """The recipe as YAML with every key, and what each means."""
    return "\n".join(["# What bon curate makes of which runs.", *_lines(recipe, "")]) + "\n"


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
            for strategy, what in STRATEGIES.items():
                yield f"{indent}  {f'{strategy}: {value.get(strategy, 0):g}':<22}# {what}"
        else:
            plain = list(value) if isinstance(value, tuple) else value
            text = yaml.safe_dump({name: plain}, allow_unicode=True, width=width)
            yield from (indent + line for line in text.splitlines())
