"""What a rewarder thinks of candidates: built once from its judgements, read by every rule.

Arrays are (Q, M), questions by candidates, whether one question is served or a whole run is
replayed. Two candidates with the same text are one response: they were judged once and they tie.

Nothing is imputed. A comparison that was never asked for is NaN; one that was asked for and not
decided (every vote unparsed or failed) is a tie, and has no decided `games`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from bon.core.records import Judgement, JudgementOutcome

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

Kind = Literal["scores", "preferences", "choices"]
KIND_OF: dict[str, Kind] = {"one": "scores", "two": "preferences", "many": "choices"}
"""What becomes of the judgements of a rewarder of this arity."""

OUTCOMES: tuple[str, ...] = get_args(JudgementOutcome)
OUTCOME_VALUE = {"first": 1.0, "tie": 0.5, "second": 0.0}
"""What a decided verdict is worth to the response shown first."""


def shown_of(row: Judgement) -> tuple[str, ...]:
    """The responses of a judgement (text keys) in the order they were shown."""
    return row.shown or ((row.first,) if row.second is None else (row.first, row.second))


@dataclass(frozen=True)
class Candidates:
    """The candidates of Q questions, M each.

    `items` (Q): question keys. `keys` (Q, M): text keys. `answers` (Q, M): codes of the answers
    read from them, −1 for none. `local` (Q, M): numbers the distinct texts of a question; equal
    texts have one number, below M.
    """

    items: tuple[str, ...]
    keys: NDArray[Any]
    answers: Ints
    local: Ints

    @classmethod
    def of(
        cls, item: str, keys: Sequence[str], answers: Sequence[str | None] | None = None
    ) -> "Candidates":
        """The candidates of one question."""
        numbers = {key: at for at, key in enumerate(dict.fromkeys(keys))}
        codes = {name: at for at, name in enumerate(sorted({a for a in answers or () if a}))}
        read = [codes[a] if a else -1 for a in answers or [None] * len(keys)]
        return cls(
            (item,),
            np.array([keys], dtype=object),
            np.array([read], dtype=np.int64),
            np.array([[numbers[key] for key in keys]], dtype=np.int64),
        )

    @property
    def size(self) -> int:
        """Candidates per question."""
        return int(self.local.shape[1])

    @cached_property
    def same(self) -> Bools:
        """(Q, M, M): whether two candidates have the same text."""
        return np.asarray(self.local[:, :, None] == self.local[:, None, :])

    @cached_property
    def first_copies(self) -> Bools:
        """(Q, M): whether a candidate is the first one with its text."""
        return np.asarray(np.argmax(self.same, axis=2) == np.arange(self.size))

    def shared(self, chosen: Floats) -> Floats:
        """Choice probabilities (Q, M) with what a text got shared among its copies."""
        together = np.where(self.same, chosen[:, None, :], 0.0).sum(axis=2)
        return np.asarray(together / self.same.sum(axis=2))

    def among(self, columns: Ints) -> "Candidates":
        """Some of the candidates of every question."""
        keys, answers, local = (x[:, columns] for x in (self.keys, self.answers, self.local))
        return Candidates(self.items, keys, answers, np.asarray(local))

    def on(self, questions: Ints) -> "Candidates":
        """The candidates of some of the questions."""
        items = tuple(self.items[at] for at in questions)
        return Candidates(items, *(x[questions] for x in (self.keys, self.answers, self.local)))


@dataclass(frozen=True)
class Said:
    """Judgements as arrays, one row each: of which question, on which of its texts.

    `first`, `second`: the texts by their `local` numbers in the order shown, `second` −1 where
    there is none; `first` is the chosen one of a listwise choice. `outcome`: codes into OUTCOMES.
    """

    question: Ints
    first: Ints
    second: Ints
    outcome: NDArray[np.integer]
    score: Floats


@dataclass(frozen=True)
class Opinion:
    """What one rewarder said about candidates.

    kind: `scores`, `preferences` or `choices`.
    scores (Q, M): mean score over the votes, or how often a candidate was chosen when several
        were shown together; NaN where there is none. None for preferences.
    prefer (Q, M, M): how far i is preferred to j, from 0 to 1, ½ a tie; NaN never asked. The
        share of decided votes, both orders together, so that a favourite position cancels.
    games (Q, M, M): decided votes between i and j.
    complete (Q): everything that the full design asks for was asked.
    undecided, asked: how much was asked, and which share of it no vote decided.
    scale: the unit of the scores in a vote, their spread within questions over a whole run;
        None where it is not known.
    """

    about: Candidates
    kind: Kind
    scores: Floats | None
    prefer: Floats | None
    games: Ints | None
    complete: Bools
    undecided: float
    asked: int
    scale: float | None = None

    def measured(self) -> "Opinion":
        """The same, in the unit that its own scores give."""
        return replace(self, scale=_spread(self.scores)) if self.kind == "scores" else self

    def settled(self, free: Bools) -> "Opinion":
        """Everything tied in the questions (Q) where `free` says that no choice matters.

        Such questions need not be judged; those that were keep what was said.
        """
        if self.prefer is None or self.games is None:
            return self
        blank = (free & ~self.complete)[:, None, None]
        prefer, games = np.where(blank, 0.5, self.prefer), np.where(blank, 1, self.games)
        return replace(self, prefer=prefer, games=games)

    def among(self, columns: Ints) -> "Opinion":
        """What it says about some of the candidates of every question; the scale stays."""
        square = (slice(None), columns[:, None], columns)
        return replace(
            self,
            about=self.about.among(columns),
            scores=None if self.scores is None else self.scores[:, columns],
            prefer=None if self.prefer is None else self.prefer[square],
            games=None if self.games is None else self.games[square],
        )

    def on(self, questions: Ints) -> "Opinion":
        """What it says about some of the questions; the scale stays."""
        return replace(
            self,
            about=self.about.on(questions),
            scores=None if self.scores is None else self.scores[questions],
            prefer=None if self.prefer is None else self.prefer[questions],
            games=None if self.games is None else self.games[questions],
            complete=self.complete[questions],
        )

    def rated_in(self, questions: Bools) -> "Opinion":
        """The same; what was asked and not decided is counted in some of the questions (Q) only."""
        if self.prefer is None or self.games is None:
            return self
        compared = ~np.isnan(self.prefer) & ~self.about.same & questions[:, None, None]
        count, lost = int(compared.sum()) // 2, int((compared & (self.games == 0)).sum()) // 2
        return replace(self, asked=count, undecided=_share(lost, count))

    def standing(self) -> Floats:
        """(Q, M) one number per candidate, to show and to rank by; NaN where there is none.

        Its mean score, how often it was chosen, or the mean preference over the other texts
        with which it was compared and a vote was decided.
        """
        if self.scores is not None:
            return self.scores
        assert self.prefer is not None
        assert self.games is not None
        met = (self.games > 0) & ~self.about.same & self.about.first_copies[:, None, :]
        won, count = np.where(met, self.prefer, 0.0).sum(axis=2), met.sum(axis=2)
        return _divided(won, count)

    def heard(self) -> Bools:
        """(Q): questions about which anything was said."""
        if self.scores is not None:
            return np.asarray(np.isfinite(self.scores).any(axis=1))
        assert self.prefer is not None
        apart = ~np.eye(self.about.size, dtype=bool)
        return np.asarray((np.isfinite(self.prefer) & apart).any(axis=(1, 2)))


def opinion(kind: Kind, said: Said, about: Candidates) -> Opinion:
    """An opinion from raw judgements, all of one rewarder."""
    if kind == "preferences":
        return _preferences(said, about)
    q, m = about.local.shape
    at = np.arange(q)[:, None] * m + about.local
    cell = said.question * m + said.first

    def total(where: Bools | slice, worth: Floats | None = None) -> NDArray[Any]:
        weights = None if worth is None else worth[where]
        return np.asarray(np.bincount(cell[where], weights, q * m)[at])

    asked: Bools = total(slice(None)) > 0
    if kind == "choices":
        times = total(said.outcome == OUTCOMES.index("chosen")).astype(float)
        decided = times.sum(axis=1, keepdims=True) > 0
        shown = np.asarray(asked.any(axis=1))
        scores = np.where(decided, times, np.nan)
        lost = _share(int((shown & ~decided[:, 0]).sum()), int(shown.sum()))
        return Opinion(about, kind, scores, None, None, shown, lost, int(shown.sum()))
    scored = (said.outcome == OUTCOMES.index("scored")) & np.isfinite(said.score)
    rows = slice(None) if scored.all() else scored
    count, sums = total(rows), total(rows, said.score)
    scores = _divided(sums, count)
    lost = _share(int((asked & np.isnan(scores)).sum()), int(asked.sum()))
    complete = np.asarray(asked.all(axis=1))
    return Opinion(about, kind, scores, None, None, complete, lost, int(asked.sum()))


def _preferences(said: Said, about: Candidates) -> Opinion:
    q, m = about.local.shape
    worth = np.array([OUTCOME_VALUE.get(name, np.nan) for name in OUTCOMES])[said.outcome]
    decided = ~np.isnan(worth)
    cell = (said.question * m + said.first) * m + said.second

    def total(where: Bools | slice, weights: Floats | None = None) -> Floats:
        return np.bincount(cell[where], weights, q * m * m).reshape(q, m, m).astype(float)

    wins, votes = total(decided, worth[decided]), total(decided)
    wins = wins + (votes - wins).transpose(0, 2, 1)
    games = votes + votes.transpose(0, 2, 1)
    asked = total(slice(None)) > 0
    asked |= asked.transpose(0, 2, 1)
    share = _divided(wins, games)
    share[asked & (games == 0)] = 0.5
    share[:, np.arange(m), np.arange(m)] = 0.5
    at = (np.arange(q)[:, None, None], about.local[:, :, None], about.local[:, None, :])
    prefer, games = share[at], games[at].astype(np.int64)
    compared = ~np.isnan(prefer) & ~about.same
    count = int(compared.sum()) // 2
    lost = _share(int((compared & (games == 0)).sum()) // 2, count)
    complete = np.asarray(~np.isnan(prefer).any(axis=(1, 2)))
    return Opinion(about, "preferences", None, prefer, np.asarray(games), complete, lost, count)


def item_opinion(
    kind: Kind, rows: Iterable[Judgement], about: Candidates, scale: float | None = None
) -> Opinion:
    """The opinion that judgements of one question make.

    Those on other texts, and those of another kind, are left out.
    """
    numbers = dict(zip(about.keys[0], about.local[0], strict=True))
    usable = [
        row
        for row in rows
        if (row.second is not None) == (kind == "preferences")
        and all(key in numbers for key in shown_of(row))
    ]
    said = Said(
        np.zeros(len(usable), dtype=np.int64),
        np.array([numbers[row.first] for row in usable], dtype=np.int64),
        np.array([numbers.get(row.second, -1) for row in usable], dtype=np.int64),
        np.array([OUTCOMES.index(row.outcome) for row in usable], dtype=np.int64),
        np.array([row.score for row in usable], dtype=float),
    )
    return replace(opinion(kind, said, about), scale=scale)


def silence(about: Candidates) -> Opinion:
    """The opinion of nobody, for rules that read answers alone."""
    blank = np.full(about.local.shape, np.nan)
    nothing = np.zeros(len(blank), dtype=bool)
    return Opinion(about, "scores", blank, None, None, nothing, 0.0, 0)


def together(members: Sequence[Opinion]) -> Opinion:
    """Several rewarders as one: the mean of their preferences, scores as 1, ½, 0."""
    prefer = np.mean(np.stack([_implied(member) for member in members]), axis=0)
    return Opinion(
        members[0].about,
        "preferences",
        None,
        prefer,
        np.ones(prefer.shape, dtype=np.int64),
        np.logical_and.reduce([member.complete for member in members]),
        float(np.mean([member.undecided for member in members])),
        sum(member.asked for member in members),
    )


def _implied(said: Opinion) -> Floats:
    """Preferences (Q, M, M), of scores (Q, M) those that they imply; a score beats none."""
    if said.prefer is not None:
        return said.prefer
    assert said.scores is not None
    filled = np.where(np.isnan(said.scores), -np.inf, said.scores)
    a, b = filled[:, :, None], filled[:, None, :]
    return np.where(a > b, 1.0, np.where(a < b, 0.0, 0.5))


def _spread(scores: Floats | None) -> float:
    """Root mean within-question variance of scores (Q, M); 1 where they do not vary."""
    assert scores is not None
    known = ~np.isnan(scores)
    count = np.maximum(known.sum(axis=1, keepdims=True), 1)
    centre = np.where(known, scores, 0).sum(axis=1, keepdims=True) / count
    squares = np.where(known, (scores - centre) ** 2, 0).sum()
    return float(np.sqrt(squares / max(known.sum(), 1))) or 1.0


def _divided(sums: NDArray[Any], count: NDArray[Any]) -> Floats:
    """Means; NaN where nothing was counted."""
    mean: Floats = np.divide(sums, count, out=np.full(count.shape, np.nan), where=count > 0)
    return mean


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
