"""What is at stake among the candidates of a question: whether it is judged, and how far.

Only the driver knows the gold; what is decided here reaches a worker as codes, and no rewarder.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Protocol, TypeVar

from bon.choosing.race import Stakes
from bon.core.keys import item_seed
from bon.core.records import AnswerOutcome
from bon.experiment.config import Judging
from bon.running.setup import Setup
from bon.running.store import Store


class Gold(Protocol):
    """A question: its key and the letter of its right answer, if that is known."""

    @property
    def key(self) -> str: ...  # noqa: D102
    @property
    def answer(self) -> str | None: ...  # noqa: D102


class Read(Protocol):
    """A candidate: its text by key, and what was read from it."""

    @property
    def text_key(self) -> str: ...  # noqa: D102
    @property
    def answer(self) -> str | None: ...  # noqa: D102
    @property
    def outcome(self) -> AnswerOutcome: ...  # noqa: D102


ReadT = TypeVar("ReadT", bound=Read)


def to_judge(
    question: Gold, candidates: Sequence[ReadT], judging: Judging, subset: float = 1.0
) -> list[ReadT]:
    """Those of a question that rewarders judge; none where nothing is to be chosen.

    And none where the question is not among the seeded share (`subset`) that is judged.
    """
    if not drawn(question.key, subset):
        return []
    usable = [row for row in candidates if row.outcome != "error"]
    if judging.skips == "nothing":
        return usable
    same = constant(question, usable) if judging.skips == "constant" else unanimous(usable)
    return [] if same else usable


def unanimous(candidates: Sequence[Read]) -> bool:
    """Whether all give one answer."""
    return len({row.answer for row in candidates}) == 1


def constant(question: Gold, candidates: Sequence[Read]) -> bool:
    """Whether no choice among them changes what is counted: right, wrong, or no answer.

    Candidates that are all wrong, some of them without an answer, are not constant: which one is
    chosen shows where `analysis.unparsed` is not `wrong`.
    """
    return len({outcome(question, row) for row in candidates}) == 1


def outcome(question: Gold, candidate: Read) -> str:
    """What choosing a candidate comes to; its answer where the question has no gold."""
    if candidate.outcome != "parsed" or candidate.answer is None:
        return "unparsed"
    if question.answer is None:
        return candidate.answer
    return "right" if candidate.answer == question.answer else "wrong"


def stakes_of(question: Gold, candidates: Sequence[Read], judging: Judging) -> Stakes | None:
    """What a race or a knockout may stop at; None where the design is to be judged to its end."""
    race = judging.race
    raced = judging.design == "race" and not drawn(question.key, race.complete)
    if not raced and judging.design != "knockout":
        return None
    labels = {row.text_key: _label(question, row, judging) for row in candidates}
    codes = {label: code for code, label in enumerate(dict.fromkeys(labels.values()))}
    return Stakes(
        Counter(row.text_key for row in candidates),
        {key: codes[label] for key, label in labels.items()},
        race.pairs,
        None if drawn(question.key, race.audit) else race.lead,
    )


def drawn(question: str, share: float) -> bool:
    """Whether a question (key) is among a seeded share of all: to be judged, in full, or audited.

    A larger share holds the questions of a smaller one.
    """
    return share >= 1.0 or item_seed("judged in full", question) % 1_000_000 < share * 1_000_000


def _label(question: Gold, candidate: Read, judging: Judging) -> str:
    if judging.race.stop == "correct":
        return outcome(question, candidate)
    return candidate.text_key if judging.race.stop == "text" else candidate.answer or ""


def look_order(setup: Setup, store: Store) -> list[str]:
    """Today's questions (keys) in the seeded order in which they are judged."""
    keys = [key for (key,) in store.query("SELECT key FROM questions WHERE active > 0")]
    return sorted(keys, key=lambda key: item_seed("looks", setup.experiment.seed, key))
