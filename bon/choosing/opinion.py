"""Judgements of one rewarder as arrays, which every selection rule reads.

Arrays are (Q, M), questions by candidates, for one served question and for a whole run alike.
Candidates of equal text are one response: judged once, always tied.

Nothing is imputed. A comparison that was never made is NaN; one without a decided vote (all
unparsed or failed) is a tie with zero decided `games`.
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
"""Kind of opinion by the arity of the rewarder."""

OUTCOMES: tuple[str, ...] = get_args(JudgementOutcome)
OUTCOME_VALUE = {"first": 1.0, "tie": 0.5, "second": 0.0}
"""Preference for the response shown first."""


def shown_of(row: Judgement) -> tuple[str, ...]:
    """Return the text keys of the judged responses in the order shown."""
    return row.shown or ((row.first,) if row.second is None else (row.first, row.second))


@dataclass(frozen=True)
class Candidates:
    """The candidates of Q questions, M each.

    `items` (Q): question keys. `keys` (Q, M): text keys. `answers` (Q, M): answer codes, −1 for
    none. `text_ids` (Q, M): number of the text within its question, below M.
    """

    items: tuple[str, ...]
    keys: NDArray[Any]
    answers: Ints
    text_ids: Ints

    @classmethod
    def of(
        cls, item: str, keys: Sequence[str], answers: Sequence[str | None] | None = None
    ) -> "Candidates":
        """Return the candidates of one question."""
        text_ids = {key: index for index, key in enumerate(dict.fromkeys(keys))}
        codes = {name: code for code, name in enumerate(sorted({a for a in answers or () if a}))}
        coded = [codes[a] if a else -1 for a in answers or [None] * len(keys)]
        return cls(
            (item,),
            np.array([keys], dtype=object),
            np.array([coded], dtype=np.int64),
            np.array([[text_ids[key] for key in keys]], dtype=np.int64),
        )

    @property
    def size(self) -> int:
        """Candidates per question."""
        return int(self.text_ids.shape[1])

    @cached_property
    def same_text(self) -> Bools:
        """(Q, M, M): whether two candidates have the same text."""
        return np.asarray(self.text_ids[:, :, None] == self.text_ids[:, None, :])

    @cached_property
    def is_first_copy(self) -> Bools:
        """(Q, M): whether a candidate is the first one with its text."""
        return np.asarray(np.argmax(self.same_text, axis=2) == np.arange(self.size))

    def share_among_copies(self, chosen: Floats) -> Floats:
        """Spread the choice probabilities (Q, M) of each text evenly over its copies."""
        totals = np.where(self.same_text, chosen[:, None, :], 0.0).sum(axis=2)
        return np.asarray(totals / self.same_text.sum(axis=2))

    def select_questions(self, questions: Ints) -> "Candidates":
        """Keep some questions."""
        return self.select(tuple(self.items[index] for index in questions), questions)

    def select(self, items: tuple[str, ...], index: Any) -> "Candidates":
        """Keep the indexed part of every array."""
        return Candidates(items, *(x[index] for x in (self.keys, self.answers, self.text_ids)))


@dataclass(frozen=True)
class JudgementArrays:
    """Judgements as arrays, one element per row.

    `first`, `second`: `text_ids` in the order shown; `second` is −1 where absent, `first` the
    chosen response of a listwise choice. `outcome`: codes into OUTCOMES.
    """

    question: Ints
    first: Ints
    second: Ints
    outcome: NDArray[np.integer]
    score: Floats


@dataclass(frozen=True)
class Opinion:
    """The judgements of one rewarder on candidates.

    scores (Q, M): mean score over votes, or how often a candidate was chosen; NaN unknown.
        None for preferences.
    prefer (Q, M, M): preference for i over j in [0, 1], ½ a tie, NaN never compared: the share
        of decided votes over both orders, so that position bias cancels.
    games (Q, M, M): decided votes between i and j.
    complete (Q): whether everything the full design asks for was judged.
    undecided, num_judged: share of the items judged without a decided vote, and their number.
    scale: unit of the scores in a vote, their spread within questions over a whole run.
    """

    candidates: Candidates
    kind: Kind
    scores: Floats | None
    prefer: Floats | None
    games: Ints | None
    complete: Bools
    undecided: float
    num_judged: int
    scale: float | None = None

    def with_scale(self) -> "Opinion":
        """Set `scale` to the root mean variance of scores within questions; 1 if they are equal."""
        return replace(self, scale=self.spread) if self.kind == "scores" else self

    @property
    def spread(self) -> float:
        """The root mean variance of `candidate_scores` within questions; 1 if they are equal."""
        centred = _centred(self.candidate_scores())
        return float(np.sqrt(np.nansum(centred**2) / max(np.isfinite(centred).sum(), 1))) or 1.0

    def fill_ties(self, free: Bools) -> "Opinion":
        """Tie everything in the incomplete questions (Q) where no choice matters."""
        if self.prefer is None or self.games is None:
            return self
        blank = (free & ~self.complete)[:, None, None]
        prefer, games = np.where(blank, 0.5, self.prefer), np.where(blank, 1, self.games)
        return replace(self, prefer=prefer, games=games)

    def select_candidates(self, columns: Ints) -> "Opinion":
        """Keep some candidates of every question, and the scale."""
        every = slice(None)
        index, square = (every, columns), (every, columns[:, None], columns)
        return self._select(self.candidates.select(self.candidates.items, index), index, square)

    def select_questions(self, questions: Ints) -> "Opinion":
        """Keep some questions, and the scale."""
        part = self._select(self.candidates.select_questions(questions), questions, questions)
        return replace(part, complete=self.complete[questions])

    def _select(self, candidates: Candidates, index: Any, square: Any) -> "Opinion":
        return replace(
            self,
            candidates=candidates,
            scores=None if self.scores is None else self.scores[index],
            prefer=None if self.prefer is None else self.prefer[square],
            games=None if self.games is None else self.games[square],
        )

    def count_undecided_in(self, questions: Bools) -> "Opinion":
        """Restrict `num_judged` and `undecided` to some questions (Q)."""
        if self.prefer is None or self.games is None:
            return self
        compared = ~np.isnan(self.prefer) & ~self.candidates.same_text & questions[:, None, None]
        count, lost = int(compared.sum()) // 2, int((compared & (self.games == 0)).sum()) // 2
        return replace(self, num_judged=count, undecided=lost / count if count else 0.0)

    def candidate_scores(self) -> Floats:
        """(Q, M): one number per candidate to show and rank by; NaN where unknown.

        The mean score, the number of times chosen, or the mean preference over the other texts
        against which a vote was decided.
        """
        if self.scores is not None:
            return self.scores
        assert self.prefer is not None
        assert self.games is not None
        others = ~self.candidates.same_text & self.candidates.is_first_copy[:, None, :]
        met = (self.games > 0) & others
        return _divide(np.where(met, self.prefer, 0.0).sum(axis=2), met.sum(axis=2))

    def is_judged(self) -> Bools:
        """(Q): whether a question has any judgement."""
        if self.scores is not None:
            return np.asarray(np.isfinite(self.scores).any(axis=1))
        assert self.prefer is not None
        off_diagonal = ~np.eye(self.candidates.size, dtype=bool)
        return np.asarray((np.isfinite(self.prefer) & off_diagonal).any(axis=(1, 2)))


def opinion(kind: Kind, judged: JudgementArrays, candidates: Candidates) -> Opinion:
    """Build an opinion from the judgements of one rewarder."""
    if kind == "preferences":
        return _preferences(judged, candidates)
    q, m = candidates.text_ids.shape
    cells = np.arange(q)[:, None] * m + candidates.text_ids
    cell = judged.question * m + judged.first

    def total(rows: Bools | slice, values: Floats | None = None) -> NDArray[Any]:
        weights = None if values is None else values[rows]
        return np.asarray(np.bincount(cell[rows], weights, q * m)[cells])

    if kind == "choices":
        times = total(judged.outcome == OUTCOMES.index("chosen")).astype(float)
        complete = np.asarray((total(slice(None)) > 0).any(axis=1))
        scores = np.where(times.sum(axis=1, keepdims=True) > 0, times, np.nan)
        known, lost = complete, complete & np.isnan(scores[:, 0])
    else:
        rows = (judged.outcome == OUTCOMES.index("scored")) & np.isfinite(judged.score)
        scores = _divide(total(rows, judged.score), total(rows))
        known = total(slice(None)) > 0
        complete, lost = np.asarray(known.all(axis=1)), known & np.isnan(scores)
    count = int(known.sum())
    undecided = int(lost.sum()) / count if count else 0.0
    return Opinion(candidates, kind, scores, None, None, complete, undecided, count)


def _preferences(judged: JudgementArrays, candidates: Candidates) -> Opinion:
    q, m = candidates.text_ids.shape
    values = np.array([OUTCOME_VALUE.get(name, np.nan) for name in OUTCOMES])[judged.outcome]
    decided = ~np.isnan(values)
    cell = (judged.question * m + judged.first) * m + judged.second

    def total(rows: Bools | slice, weights: Floats | None = None) -> Floats:
        return np.bincount(cell[rows], weights, q * m * m).reshape(q, m, m).astype(float)

    wins, votes = total(decided, values[decided]), total(decided)
    wins = wins + (votes - wins).transpose(0, 2, 1)
    games = votes + votes.transpose(0, 2, 1)
    compared = total(slice(None)) > 0
    compared |= compared.transpose(0, 2, 1)
    prefer = _divide(wins, games)
    prefer[compared & (games == 0)] = 0.5
    prefer[:, np.arange(m), np.arange(m)] = 0.5
    texts = candidates.text_ids
    cells = (np.arange(q)[:, None, None], texts[:, :, None], texts[:, None, :])
    prefer, games = prefer[cells], games[cells].astype(np.int64)
    complete = np.asarray(~np.isnan(prefer).any(axis=(1, 2)))
    opinion = Opinion(candidates, "preferences", None, prefer, np.asarray(games), complete, 0.0, 0)
    return opinion.count_undecided_in(np.ones(q, dtype=bool))


def item_opinion(
    kind: Kind, rows: Iterable[Judgement], candidates: Candidates, scale: float | None = None
) -> Opinion:
    """Build the opinion on one question.

    Judgements of other texts and of another kind are ignored.
    """
    text_ids = dict(zip(candidates.keys[0], candidates.text_ids[0], strict=True))
    usable = [
        row
        for row in rows
        if (row.second is not None) == (kind == "preferences")
        and all(key in text_ids for key in shown_of(row))
    ]
    judged = JudgementArrays(
        np.zeros(len(usable), dtype=np.int64),
        np.array([text_ids[row.first] for row in usable], dtype=np.int64),
        np.array([text_ids.get(row.second, -1) for row in usable], dtype=np.int64),
        np.array([OUTCOMES.index(row.outcome) for row in usable], dtype=np.int64),
        np.array([row.score for row in usable], dtype=float),
    )
    return replace(opinion(kind, judged, candidates), scale=scale)


def no_opinion(candidates: Candidates) -> Opinion:
    """Return an opinion without judgements, for rules that read answers alone."""
    blank = np.full(candidates.text_ids.shape, np.nan)
    nothing = np.zeros(len(blank), dtype=bool)
    return Opinion(candidates, "scores", blank, None, None, nothing, 0.0, 0)


def panel(members: Sequence[Opinion], units: Sequence[float]) -> Opinion:
    """Average the scores of several rewarders, each from its mean in the question and in its unit.

    The unit is a member's `spread` over a run. A member without a score for a candidate abstains.
    """
    scores = np.stack(
        [_centred(m.candidate_scores()) / unit for m, unit in zip(members, units, strict=True)]
    )
    known = np.isfinite(scores).sum(axis=0)
    return Opinion(
        members[0].candidates,
        "scores",
        _divide(np.nansum(scores, axis=0), known),
        None,
        None,
        np.logical_and.reduce([member.complete for member in members]),
        float(np.mean([member.undecided for member in members])),
        sum(member.num_judged for member in members),
    )


def _centred(scores: Floats) -> Floats:
    known = np.isfinite(scores)
    return scores - _divide(np.nansum(scores, axis=1), known.sum(axis=1))[:, None]


def _divide(sums: NDArray[Any], count: NDArray[Any]) -> Floats:
    """Means; NaN where the count is zero."""
    mean: Floats = np.divide(sums, count, out=np.full(count.shape, np.nan), where=count > 0)
    return mean
