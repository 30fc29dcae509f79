"""Arms of a training study: on which responses of a run each policy is trained.

Arms of one study share one set of questions, those on which every arm has a choice to make, so that
they differ in what they prefer alone.
"""

import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import astuple, dataclass

from bon.analysis.results import REFERENCES
from bon.core.errors import BonError, some
from bon.core.keys import content_key, item_seed
from bon.core.records import Candidate, Question
from bon.engines.tuning import Tuning
from bon.experiment.cards import Loaded
from bon.experiment.config import PolicyCard
from bon.exports.preferences import ranking, with_texts
from bon.graders import grades_of
from bon.storage.store import Store
from bon.work.setup import Setup


@dataclass(frozen=True)
class Choice:
    """A question with the best and the worst response of an arm."""

    question: str
    chosen: str
    rejected: str


@dataclass(frozen=True)
class Arm:
    """What one policy is trained on; `key` hashes everything that shapes the checkpoint."""

    name: str
    tuning: Tuning
    rows: tuple[Choice, ...]
    policy: str

    @property
    def key(self) -> str:
        """The content key."""
        rows = [[row.question, row.chosen, row.rejected] for row in self.rows]
        return content_key(self.policy, astuple(self.tuning), rows)

    @property
    def label(self) -> str:
        """The name of its checkpoint and policy."""
        return f"{self.name}.{self.tuning.method}.{self.tuning.seed}"


@dataclass(frozen=True)
class Choices:
    """Choices of every arm on shared questions; `unjudged` questions were left out.

    `by_key` of them have different answers and were not judged because of the answer key.
    """

    by_arm: dict[str, tuple[Choice, ...]]
    questions: tuple[Question, ...]
    unjudged: int
    by_key: int


def choose(
    setup: Setup, store: Store, policy: Loaded[PolicyCard], rewarders: list[str], seed: int
) -> Choices:
    """Return what every rewarder and reference prefers among the candidates of a policy."""
    ranks = {name: ranking(setup, store, name) for name in rewarders}
    by_arm: dict[str, list[Choice]] = {name: [] for name in (*rewarders, *REFERENCES)}
    shared: list[Question] = []
    unjudged = by_key = 0
    for question in store.questions():
        rows = with_texts(store, policy, question)
        texts = {row.text_key: row.text for row in rows}
        grades = grades_of(question, rows)
        if len({grade.answer for grade in grades}) < 2:
            continue  # majority vote has nothing to prefer
        scores = {name: rank(question, rows) for name, rank in ranks.items()}
        if not all(len(scored) > 1 for scored in scores.values()):
            unjudged += 1
            by_key += len({grade.credit for grade in grades}) == 1
            continue
        scores |= {name: _reference(name, question, rows, seed) for name in REFERENCES}
        shared.append(question)
        for name, scored in scores.items():
            ends = _extremes(scored, item_seed(seed, question.key, name))
            best, worst = (texts[key] for key in ends)
            by_arm[name].append(Choice(question.key, best, worst))
    if not shared:
        raise BonError(
            f"no question has judged responses with different answers of {policy.card.name}",
            f"needed: judgements of {some(rewarders)} on candidates with texts",
        )
    choices = {name: tuple(rows) for name, rows in by_arm.items()}
    return Choices(choices, tuple(shared), unjudged, by_key)


def _reference(name: str, question: Question, rows: list[Candidate], seed: int) -> dict[str, float]:
    grades = grades_of(question, rows)
    votes = Counter(grade.answer for grade in grades)
    draw = random.Random(item_seed(seed, question.key, "reference"))
    return {
        row.text_key: {
            "random": draw.random(),
            "majority": float(votes[grade.answer]),
            "oracle": grade.credit,
        }[name]
        for row, grade in zip(rows, grades, strict=True)
    }


def _extremes(scores: Mapping[str, float], seed: int) -> tuple[str, str]:
    """Return a highest and a different lowest key, ties drawn at random."""
    order = sorted(scores)
    random.Random(seed).shuffle(order)
    order.sort(key=scores.__getitem__)
    return order[-1], order[0]
