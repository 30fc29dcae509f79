"""Preferences among the candidates of a run, by a rewarder or by the answer key.

The prompt is the one that the policy received, with images in place. A policy of unknown prompt
(an import) gets the bare question and its options.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Literal

from bon.choosing.opinion import KIND_OF, Candidates, item_opinion
from bon.core.errors import BonError
from bon.core.records import Candidate, ImageRef, Question
from bon.engines.base import ImagePart, Message
from bon.experiment.cards import Loaded
from bon.experiment.config import PolicyCard, RewarderCard
from bon.experiment.prompts import Prompt
from bon.formats.score_tables import WITHOUT_TEXT
from bon.graders import grades_of
from bon.policies.prompting import policy_messages
from bon.rewarders.registry import rewarder_class
from bon.storage.store import Store
from bon.work.setup import Setup
from bon.work.units import judgements_on

Pairing = Literal["best-worst", "all"]
BY_KEY = "correct"
"""Rank by the answer key instead of a rewarder."""


@dataclass(frozen=True, slots=True)
class Preferences:
    """Which pairs to make.

    by: a rewarder, or BY_KEY. pairs: `best-worst` (one per question), or `all` with different
    scores.
    """

    by: str = BY_KEY
    pairs: Pairing = "best-worst"


@dataclass(frozen=True, slots=True)
class Contrast:
    """A better and a worse answer to a question as the policy received it, ranked by `by`."""

    question: Question
    policy: str
    by: str
    messages: tuple[Message, ...]
    chosen: str
    rejected: str
    chosen_score: float
    rejected_score: float

    @property
    def margin(self) -> float:
        """Difference of the scores."""
        return self.chosen_score - self.rejected_score

    @property
    def images(self) -> list[ImagePart]:
        """The images of the prompt, in order and with repeats."""
        parts = [part for message in self.messages for part in message.parts]
        return [part for part in parts if isinstance(part, ImagePart)]


def training_rows(setup: Setup, store: Store, preferences: Preferences) -> Iterator[Contrast]:
    """Yield training rows policy by policy, in the order of the questions."""
    rank = ranking(setup, store, preferences.by)
    if not store.has("candidates", "outcome != 'error' AND finish != ?", (WITHOUT_TEXT,)):
        raise BonError("the run holds no response texts", "import the answers too, then export")
    for policy in setup.policies:
        for question in store.questions():
            rows = with_texts(store, policy, question)
            texts = {row.text_key: row.text for row in rows}
            scores = rank(question, rows)
            pairs = _pairs(scores, preferences)
            messages = messages_of(question, policy) if pairs else ()
            for better, worse in pairs:
                yield Contrast(
                    question, policy.card.name, preferences.by, messages,
                    texts[better], texts[worse], scores[better], scores[worse],
                )  # fmt: skip


def with_texts(store: Store, policy: Loaded[PolicyCard], question: Question) -> list[Candidate]:
    """Return the candidates of a question whose texts are known."""
    return [
        row
        for row in store.candidates(policy.spec, question.key, policy.card.n)
        if row.outcome != "error" and row.finish != WITHOUT_TEXT
    ]


def load_image(ref: ImageRef) -> ImagePart:
    """Read an image of the store."""
    return ImagePart(ref.sha256, Path(ref.path).read_bytes())


def messages_of(question: Question, policy: Loaded[PolicyCard]) -> tuple[Message, ...]:
    """Return the policy's prompt for a question."""
    prompt = policy.prompt if policy.prompt.text else _BARE
    return policy_messages(question, prompt, load_image, policy.card.images)


_BARE = Prompt("bare question", "{{ (question | trim ~ '\n' ~ options) | trim }}")

Rank = Callable[[Question, list[Candidate]], dict[str, float]]
"""Score by text key, higher is better; texts without a score are omitted."""


def ranking(setup: Setup, store: Store, by: str) -> Rank:
    """Return the scores of a rewarder or of the answer key; BonError for another name."""
    if by == BY_KEY:
        return lambda question, rows: {
            row.text_key: grade.credit
            for row, grade in zip(rows, grades_of(question, rows), strict=True)
        }
    rewarders = {rewarder.card.name: rewarder for rewarder in setup.rewarders}
    if by not in rewarders:
        choices = ", ".join([BY_KEY, *rewarders])
        raise BonError(f"the run has no rewarder {by!r}", f"use one of {choices}")
    return lambda question, rows: _standing(setup, store, rewarders[by], question, rows)


def num_unjudged_by_key(setup: Setup, store: Store, by: str) -> int:
    """Count questions with different answers that a rewarder did not judge because of the key."""
    rank = ranking(setup, store, by)
    return sum(
        all_alike(question, rows) and not rank(question, rows)
        for policy in setup.policies
        for question in store.questions()
        if (rows := with_texts(store, policy, question))
    )


def all_alike(question: Question, rows: list[Candidate]) -> bool:
    """Whether different answers are worth the same by the answer key."""
    grades = grades_of(question, rows)
    return len({g.answer for g in grades}) > 1 and len({g.credit for g in grades}) == 1


def unjudged_note(count: int, directory: Path) -> str:
    """Note how many questions the answer key left out, and how to judge them."""
    return (
        f"{count:,} questions with different answers were not judged because all are wrong by the "
        f"answer key; to judge them: bon run {directory / 'experiment.yaml'} "
        "--set judging.skip=unanimous"
    )


def _standing(
    setup: Setup,
    store: Store,
    rewarder: Loaded[RewarderCard],
    question: Question,
    rows: list[Candidate],
) -> dict[str, float]:
    """Return a rewarder's score of each text, as in the analysis."""
    texts = list(dict.fromkeys(row.text_key for row in rows))
    if len(texts) < 2:
        return {}
    judgements = judgements_on(
        setup, store.judgements(rewarder.spec, question.key), rewarder, question, rows
    )
    kind = KIND_OF[rewarder_class(rewarder.card).arity]
    opinion = item_opinion(kind, judgements, Candidates.of(question.key, texts))
    scores = opinion.candidate_scores()[0]
    return {key: s for key, s in zip(texts, scores.tolist(), strict=True) if s == s}


def _pairs(scores: dict[str, float], preferences: Preferences) -> list[tuple[str, str]]:
    """Return (better, worse) text keys, largest difference first."""
    ranked = sorted(scores, key=lambda key: (-scores[key], key))
    pairs = [(a, b) for a, b in combinations(ranked, 2) if scores[a] > scores[b]]
    pairs.sort(key=lambda pair: scores[pair[1]] - scores[pair[0]])
    return pairs[:1] if preferences.pairs == "best-worst" else pairs
