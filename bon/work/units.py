"""The units of an experiment: what each model does on each item, and what of it is left.

Running, resuming, status and plans all read them here.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple, TypeVar

from bon.choosing.opinion import shown_of
from bon.choosing.race import EarlyStopping
from bon.core.keys import text_key
from bon.core.records import BY_MODEL, Candidate, Judgement, PreferencePair, Question
from bon.experiment.cards import Loaded
from bon.experiment.config import PolicyCard, RewarderCard
from bon.graders import graded_key
from bon.rewarders import item_judging
from bon.rewarders.item_judging import is_complete
from bon.rewarders.registry import rewarder_class
from bon.storage.store import Store
from bon.work.judging_scope import stakes_of, to_judge
from bon.work.reading import unread
from bon.work.setup import Setup

PAGE = 256
"""Items whose rows are looked up together."""
ItemT = TypeVar("ItemT")


class Sampling(NamedTuple):
    """The n candidates that a policy samples for a question, and the indices not yet stored."""

    question: Question
    n: int
    missing: tuple[int, ...]


class Unit(NamedTuple):
    """What a rewarder judges together: a pair, or the candidates of one policy on a question.

    texts: keys of the responses. votes: per showing, if not those of the card. ready: all
    candidates are stored.
    """

    key: str
    texts: frozenset[str]
    votes: int | None = None
    ready: bool = True
    stakes: EarlyStopping | None = None


def pages(items: Iterable[ItemT]) -> Iterator[list[ItemT]]:
    """Yield PAGE items at a time."""
    rest = iter(items)
    while page := [*islice(rest, PAGE)]:
        yield page


def samplings(setup: Setup, store: Store, policy: Loaded[PolicyCard]) -> Iterator[Sampling]:
    """Yield what a policy samples for every question; nothing if its responses are imported."""
    for questions in pages(() if policy.card.imported else store.questions()):
        keys = [question.key for question in questions]
        stored = store.stored("candidates", '"index"', policy.spec, keys)
        for question in questions:
            n, have = setup.depth(policy, question.key), stored[question.key]
            yield Sampling(question, n, tuple([i for i in range(n) if (i,) not in have]))


def pair_unit(pair: PreferencePair, votes: int) -> Unit:
    """Return the unit of a preference pair."""
    return Unit(pair.key, frozenset(map(text_key, pair.responses)), votes)


def question_unit(
    setup: Setup, question: Question, pool: Iterable[Candidate], *, ready: bool = True
) -> tuple[Unit, list[Candidate]]:
    """Return the unit of a question with its stored candidates, and those of them to judge.

    No texts where nothing is to be judged: no choice matters, or the question is not drawn.
    """
    judging = setup.experiment.judging
    usable = to_judge(question, pool, judging, setup.experiment.subset)
    texts = frozenset(row.text_key for row in usable)
    stakes = stakes_of(question, usable, judging) if usable else None
    return Unit(question.key, texts, ready=ready, stakes=stakes), usable


def grading_unit(question: Question, pool: Iterable[Candidate]) -> tuple[Unit, dict[str, str]]:
    """Return the unit of the answers that a model grades, and by key what it is shown of them."""
    texts: dict[str, str] = {}
    for row in pool if question.grader == BY_MODEL else ():
        if row.outcome != "error" and row.text:
            key = graded_key(question, row.answer, row.text_key)
            texts[key] = row.text if key == row.text_key else row.answer or ""
    return Unit(question.grading_key, frozenset(texts)), texts


def reading_unit(question: Question, pool: Iterable[Candidate]) -> tuple[Unit, dict[str, str]]:
    """Return the unit of the responses that a model reads, and their texts by key."""
    texts = {row.text_key: row.text for row in unread(question, pool)}
    return Unit(question.key, frozenset(texts)), texts


def lacking(
    setup: Setup, store: Store, rewarder: Loaded[RewarderCard], units: Iterable[Unit]
) -> Iterator[tuple[Unit, list[Judgement] | None]]:
    """Yield every unit with what `known_judgements` returns, read a page at a time.

    One that is not ready lacks all.
    """
    card = rewarder.card
    for page in pages(units):
        keys = [unit.key for unit in page]
        shown = store.stored("judgements", "first, second, vote", rewarder.spec, keys)
        for unit in page:
            judged, votes = shown[unit.key], unit.votes or card.votes
            if not unit.ready:
                yield unit, []
            elif is_complete(card, unit.texts, unit.key, votes, judged):
                yield unit, None
            else:
                yield unit, known_judgements(setup, store, rewarder, unit, new=not judged)


def known_judgements(
    setup: Setup, store: Store, rewarder: Loaded[RewarderCard], unit: Unit, *, new: bool = False
) -> list[Judgement] | None:
    """Return the stored judgements of a unit that lacks some; None if it lacks none.

    new: it is known that there are none.
    """
    if not unit.texts:
        return None
    known = [
        row
        for row in ([] if new else store.judgements(rewarder.spec, unit.key))
        if unit.texts.issuperset(shown_of(row))
    ]
    card = rewarder.card
    protocol = setup.protocol(rewarder).with_votes(unit.votes or card.votes)
    calls = item_judging.missing_calls(
        card, rewarder_class(card).arity, unit.texts, unit.key, protocol, known, unit.stakes
    )
    return known if calls else None


def judgements_on(
    setup: Setup,
    stored: Iterable[Judgement],
    rewarder: Loaded[RewarderCard],
    question: Question,
    pool: Iterable[Candidate],
) -> list[Judgement]:
    """Return those of a question's stored judgements that are asked for on these candidates."""
    usable = [row for row in pool if row.outcome != "error"]
    texts = {row.text_key for row in usable}
    stakes = stakes_of(question, usable, setup.experiment.judging)
    protocol = setup.protocol(rewarder)
    return item_judging.protocol_rows(rewarder.card, texts, question.key, protocol, stored, stakes)
