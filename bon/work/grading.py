"""The models that grade answers (`grader: llm`, `grading: CARD`) and read them (`extractor: llm`,
`reading: CARD`; bon.work.reading).

A grading is a judgement of one final answer, or of a whole reply where none is stated or a rubric
grades it, by a pointwise rewarder whose prompt shows the right answers. It is stored, priced and
resumed like any judgement, under a spec of its own.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from bon.core.base_models import guessed_base, without_mark
from bon.core.errors import BonError
from bon.core.records import BY_MODEL, Question
from bon.core.validation import Origin
from bon.experiment.cards import Loaded, load_rewarder
from bon.experiment.config import CardRef, Experiment, PolicyCard, RewarderCard
from bon.graders import gold_of

_PINNED: dict[str, Any] = {
    "kind": "pointwise",
    "prompt": "grade",
    "verdict": None,
    "score": {
        "pattern": r"Grade:\s*(correct|partly correct|incorrect)\b",
        "values": {"correct": 1.0, "partly correct": 0.5, "incorrect": 0.0},
        "reader": "strict", "range": None, "yes": [], "no": [], "delete": "*",
    },
}  # fmt: skip
"""What a grading card has whatever its card says; `grading: {card: CARD, prompt: ...}` differs."""

_READS: dict[str, Any] = {
    "kind": "python", "python": "bon.rewarders.generative:AnswerReader", "votes": 1,
    "verdict": None, "score": None,
}  # fmt: skip
"""What the card of a model that reads has, whatever it says."""


def load_grader(experiment: Experiment, base: Path, origin: Origin) -> Loaded[RewarderCard] | None:
    """Return the model that grades, asked with the pinned prompt; None without one."""
    ref: CardRef | None = experiment.grading
    if ref is None:
        if any(task.grader == BY_MODEL for task in experiment.questions):
            raise needs_grader(origin.place(("questions",)))
        return None
    own = {"card": ref} if isinstance(ref, str) else dict(ref)
    if own.get("kind", "pointwise") != "pointwise":
        raise BonError(f"{origin.place(('kind',))}: a grader is pointwise", "leave `kind` out")
    return load_rewarder({**_PINNED, **own}, base, experiment.seed, origin)


def needs_grader(where: str) -> BonError:
    """Return the error of a task that a model grades where none is named."""
    fix = "add `grading: CARD` (bon list rewarders)"
    return BonError(f"{where}: grader 'llm' needs a model that grades", fix)


def load_reader(
    experiment: Experiment,
    policies: Iterable[Loaded[PolicyCard]],
    base: Path,
    origin: Origin,
) -> Loaded[RewarderCard] | None:
    """Return the model that reads; BonError if one is asked for and none named, or vice versa."""
    asked = [policy.card.name for policy in policies if policy.card.extractor == BY_MODEL]
    ref = experiment.reading
    if ref is None and asked:
        raise BonError(
            f"{asked[0]}: extractor 'llm' needs a model that reads",
            "add `reading: CARD` (bon list rewarders)",
        )
    if ref is None:
        return None
    if not asked:
        raise BonError(
            f"{origin.place(())}: no policy has its answers read by a model",
            "add `extractor: llm` to one, or leave `reading` out",
        )
    own = {"card": ref} if isinstance(ref, str) else dict(ref)
    return load_rewarder({"prompt": "read", **own, **_READS}, base, experiment.seed, origin)


def check_grader(grader: Loaded[RewarderCard], rewarders: Iterable[Loaded[RewarderCard]]) -> None:
    """Raise BonError if a rewarder is the model that grades: it would grade its own choices."""
    for rewarder in rewarders:
        card = rewarder.card
        if card.name == grader.card.name or (card.model and card.model == grader.card.model):
            raise BonError(
                f"grading: {grader.card.name!r} is the model of the rewarder {card.name!r}, and "
                "would grade its own choices",
                "let another model grade",
            )


def grader_note(grader: Loaded[RewarderCard], models: Iterable[Loaded[Any]]) -> str:
    """Return what a reader must know of a model that grades, and of models of its base model."""
    base = _base(grader)
    kin = [m.card.name for m in models if base and _base(m) == base and m is not grader]
    shared = f"; it shares its base model with {', '.join(kin)}" if kin else ""
    return (
        f"answers are graded by a model, {grader.card.name}{shared}: "
        "`bon regrade RUN --labels` measures its error and corrects accuracies"
    )


def grading_prompt(question: Question, block: str) -> str:
    """Return what a grader sees of a question: its text, and the right answers or the rubric."""
    gold = gold_of(question)
    if question.meta.get("rubric"):
        return f"{block}\n\nRubric: {gold.answers[0]}"
    notes = f" {gold.unit}" * bool(gold.unit)
    notes += f" (tolerance {gold.tolerance})" * bool(gold.tolerance)
    return f"{block}\n\nRight answer: {' or '.join(gold.answers)}{notes}"


def _base(loaded: Loaded[Any]) -> str:
    card = loaded.card
    return without_mark(card.family or guessed_base(card.model or card.name))
