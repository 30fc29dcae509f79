"""From tables to arrays: pools of candidates, and what each rewarder said about them.

Text keys are only unique within a question, so a response is a (question, text) pair. Two
candidates with the same text are one response: they were judged once and they tie.
"""

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bon.analysis.data.tables import Tables
from bon.choosing.opinion import OUTCOMES, Candidates, Kind, Opinion, Said
from bon.choosing.opinion import opinion as make_opinion
from bon.core.errors import BonError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

_AT_ONCE = 100_000  # judgements that stay in the processor's cache

_JUDGED = ("rewarder", "item", "first", "second", "vote", "outcome", "score")


@dataclass(frozen=True)
class Located:
    """Candidates, and where the responses of the run are among them.

    `places` (all responses of the run): M · question + `local` number of the text, or −1.
    """

    candidates: Candidates
    places: Ints


@dataclass(frozen=True)
class Pool:
    """The candidates of one policy: Q questions with M candidates each, arrays (Q, M).

    `located` are the same as rules see them; `everyone` also has what is left out of the pool,
    in as many columns as the largest question needs, with blank keys in the rest.
    `indexes` number the candidates as the policy made them.
    `rows` are the places of its questions in the table of all questions; `short` questions had
    fewer candidates than the others and are left out.
    """

    policy: str
    rows: Ints
    frame: pd.DataFrame
    indexes: Ints
    correct: Floats
    unparsed: Bools
    errors: Bools
    length: Floats
    logprob: Floats
    mean_logprob: Floats
    located: Located
    everyone: Located
    first_correct: Floats
    short: int

    @property
    def size(self) -> int:
        """Candidates a question."""
        return int(self.correct.shape[1])

    @property
    def candidates(self) -> Candidates:
        """What rules see of them."""
        return self.located.candidates

    @property
    def leaked(self) -> Bools:
        """Questions that are also in the reward benchmark (Q)."""
        return np.asarray(self.frame["leaked"].fillna(False), dtype=bool)

    @property
    def constant(self) -> Bools:
        """Questions whose candidates are all right or all wrong: no choice changes them (Q)."""
        return np.asarray(self.correct.min(axis=1) == self.correct.max(axis=1))


@dataclass(frozen=True)
class Judged:
    """Judgements of one item kind as arrays, rows of one rewarder next to each other."""

    item: Ints
    first: Ints
    second: Ints
    vote: Ints
    outcome: NDArray[np.int8]
    score: Floats
    bounds: dict[str, tuple[int, int]]

    def of(self, rewarder: str) -> "Judged":
        """The rows of one rewarder (views, not copies)."""
        a, b = self.bounds.get(rewarder, (0, 0))
        return self.take(slice(a, b))

    def take(self, rows: Ints | slice) -> "Judged":
        """Some of the rows, without bounds."""
        return Judged(
            self.item[rows],
            self.first[rows],
            self.second[rows],
            self.vote[rows],
            self.outcome[rows],
            self.score[rows],
            {},
        )

    def __len__(self) -> int:
        return len(self.item)


@dataclass(frozen=True)
class ToDecide:
    """What is to be settled in how many looks, and the questions in the order of asking."""

    what: Literal["best", "beats-majority"]
    looks: int
    order: tuple[str, ...]


@dataclass(frozen=True)
class Run:
    """A run as arrays."""

    tables: Tables
    pools: dict[str, Pool]
    candidates: Judged
    pairs: Judged
    rewarders: tuple[str, ...]

    @property
    def design(self) -> str:
        """Which comparisons were made (`meta["judging"]`); all pairs unless told."""
        return str(self.tables.meta.get("judging", {}).get("design", "all_pairs"))

    @property
    def in_full(self) -> Bools:
        """The questions of the table in which judging did not stop early by what it found."""
        if self.design != "race":
            return np.ones(len(self.tables.questions), dtype=bool)
        whole = self.tables.meta["judging"]["in_full"]
        return np.asarray(self.tables.questions["question"].isin(whole), dtype=bool)

    @property
    def drawn(self) -> Bools | None:
        """The questions of the table that were drawn at random to be judged; None: all."""
        some = self.tables.meta.get("judging", {}).get("drawn")
        if some is None:
            return None
        return np.asarray(self.tables.questions["question"].isin(some), dtype=bool)

    @property
    def asked_to_decide(self) -> "ToDecide | None":
        """What looks were to settle (`judging.decide`); None: everything is judged."""
        said = self.tables.meta.get("judging", {}).get("decide")
        return None if said is None else ToDecide(said["what"], said["looks"], tuple(said["order"]))

    @property
    def samples(self) -> tuple[Bools, ...]:
        """Random samples of the questions, the larger first: those judged, those in full."""
        made = [] if self.drawn is None else [self.drawn]
        return tuple(made + ([self.in_full] if self.design == "race" else []))

    @property
    def kinds(self) -> dict[str, str]:
        """What kind of card each rewarder has."""
        return dict(zip(self.rewarders, self.tables.rewarders["kind"].astype(str), strict=True))


def read(tables: Tables) -> Run:
    """Arrays of a run, or a BonError that says what is wrong with its tables."""
    tables.check()
    _check_unique(tables)
    keys = pd.Index(tables.candidates["text_key"].unique())
    questions = pd.Index(tables.questions["question"])
    question = questions.get_indexer(pd.Index(tables.candidates["question"]))
    if (question < 0).any():
        lost = tables.candidates["question"].to_numpy()[int(np.argmax(question < 0))]
        raise BonError(
            f"candidates name question {lost!r}, which table 'questions' lacks",
            "add the question, or leave out its candidates",
        )
    text = keys.get_indexer(pd.Index(tables.candidates["text_key"]))
    joint = question.astype(np.int64) * max(len(keys), 1) + text
    known, response = np.unique(joint, return_inverse=True)
    frame = tables.candidates.assign(_question=question, _response=response)
    letters = pd.Index(sorted(str(a) for a in frame["answer"].dropna().unique()))
    codes = letters.get_indexer(pd.Index(frame["answer"].astype(object)))
    frame = frame.assign(_code=np.where(frame["outcome"] == "parsed", codes, -1))
    pools = {
        str(policy): _pool(str(policy), part, tables.questions, len(known))
        for policy, part in frame.groupby("policy", sort=False, observed=True)
    }
    on_pairs = np.asarray(tables.judgements["item_kind"] == "pair", dtype=bool)
    judged = tables.judgements[list(_JUDGED)]
    names = tuple(str(r) for r in tables.rewarders["rewarder"])
    pair_keys = pd.Index(tables.pairs["pair"])
    sides = tables.pairs[["response_0", "response_1"]].to_numpy()
    return Run(
        tables,
        pools,
        _judged(judged[~on_pairs], names, questions, _Responses(keys, known)),
        _judged(judged[on_pairs], names, pair_keys, _Sides(sides)),
        names,
    )


def _check_unique(tables: Tables) -> None:
    for table, columns in {
        "questions": ["question"],
        "candidates": ["policy", "question", "index"],
        "pairs": ["pair"],
        "rewarders": ["rewarder"],
    }.items():
        frame: pd.DataFrame = getattr(tables, table)
        twice = frame.duplicated(columns)
        if twice.any():
            row = frame.loc[twice, columns].iloc[0].tolist()
            raise BonError(
                f"table {table!r} holds {', '.join(map(str, row))} twice", "drop one of the two"
            )
    unknown = set(tables.judgements["outcome"].unique()) - set(OUTCOMES)
    if unknown:
        raise BonError(
            f"table 'judgements' holds the unknown outcome {sorted(unknown)[0]!r}",
            f"use {', '.join(OUTCOMES)}",
        )


def _pool(policy: str, frame: pd.DataFrame, questions: pd.DataFrame, num_responses: int) -> Pool:
    everyone = frame = frame.sort_values(["_question", "index"], kind="stable")
    first = frame.groupby("_question")["correct"].first()
    if "pooled" in frame:  # a greedy first candidate is not exchangeable with sampled ones
        frame = frame[frame["pooled"].astype(bool)]
    count = frame.groupby("_question")["index"].transform("size")
    sizes = frame.groupby("_question").size()
    size = int(sizes.mode().max())
    place = frame.groupby("_question").cumcount()
    frame = frame[(count >= size) & (place < size)]
    rows = frame["_question"].to_numpy()[::size]
    shape = (len(rows), size)

    def grid(column: str) -> Floats:
        return frame[column].to_numpy(dtype=float, na_value=np.nan).reshape(shape)

    outcome = frame["outcome"].to_numpy(dtype=object).reshape(shape)
    tokens = grid("num_tokens")
    logprob = grid("logprob")
    located = _located(frame, num_responses)
    return Pool(
        policy,
        rows.astype(np.int64),
        questions.iloc[rows].reset_index(drop=True),
        grid("index").astype(np.int64),
        grid("correct") * (outcome == "parsed"),
        np.asarray(outcome != "parsed"),
        np.asarray(outcome == "error"),
        grid("length"),
        logprob,
        np.divide(logprob, tokens, out=np.full(shape, np.nan), where=tokens > 0),
        located,
        located if len(everyone) == len(frame) else _located(everyone, num_responses),
        first.loc[rows].to_numpy(dtype=float),
        int((sizes < size).sum()),
    )


def _located(frame: pd.DataFrame, num_responses: int) -> Located:
    """The candidates of a policy, sorted by question; questions with fewer are filled up."""
    row, items = pd.factorize(frame["question"].astype(str))
    column = frame.groupby("_question").cumcount().to_numpy()
    shape = (len(items), int(column.max(initial=-1)) + 1)

    def grid(values: "pd.Series[Any]", blank: Any, kind: Any) -> NDArray[Any]:
        found = np.full(shape, blank, dtype=kind)
        found[row, column] = values.to_numpy()
        return found

    response = grid(frame["_response"], -1, np.int64)
    distinct = response[:, :, None] == response[:, None, :]
    first = np.argmax(distinct, axis=2)
    new = first == np.arange(shape[1])
    local = np.take_along_axis(new.cumsum(axis=1) - 1, first, axis=1)
    places = np.full(num_responses, -1)
    place = np.arange(shape[0])[:, None] * shape[1] + local
    places[response[response >= 0]] = place[response >= 0]
    keys, answers = grid(frame["text_key"], "", object), grid(frame["_code"], -1, np.int64)
    return Located(Candidates(tuple(items), keys, answers, local.astype(np.int64)), places)


class _Responses:
    """Finds the response of (question, text)."""

    def __init__(self, keys: "pd.Index[Any]", known: Ints) -> None:
        self.keys, self.known = keys, known

    def find(self, item: Ints, codes: Ints, values: "pd.Index[Any]") -> Ints:
        texts = np.append(self.keys.get_indexer(values), -1)
        found = np.full(len(item), -1)
        for at in range(0, len(item) if len(self.known) else 0, _AT_ONCE):
            part = slice(at, at + _AT_ONCE)
            text = texts.take(codes[part])
            joint = item[part] * len(self.keys) + text
            place = np.searchsorted(self.known, joint)
            place = np.minimum(place, len(self.known) - 1, out=place)
            there = (text >= 0) & (item[part] >= 0) & (self.known.take(place) == joint)
            np.copyto(found[part], place, where=there)
        return found


class _Sides:
    """Finds which side of a pair a text is: 0 or 1."""

    def __init__(self, sides: NDArray[Any]) -> None:
        vocabulary = pd.Index(pd.unique(sides.ravel()))
        self.vocabulary = vocabulary
        self.codes = vocabulary.get_indexer(pd.Index(sides.ravel())).reshape(sides.shape)

    def find(self, item: Ints, codes: Ints, values: "pd.Index[Any]") -> Ints:
        text = np.append(self.vocabulary.get_indexer(values), -1)[codes]
        if not len(self.codes):
            return np.full(len(item), -1)
        own = self.codes[np.maximum(item, 0)]
        side = np.where(own[:, 0] == text, 0, np.where(own[:, 1] == text, 1, -1))
        return np.where((item >= 0) & (text >= 0), side, -1)


def _codes(column: "pd.Series[Any]") -> tuple[NDArray[Any], "pd.Index[Any]"]:
    """Integer codes of a column (−1 missing) and what they stand for."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        return column.cat.codes.to_numpy(dtype=np.int64), column.cat.categories
    codes, values = pd.factorize(column)
    return np.asarray(codes, dtype=np.int64), pd.Index(values)


def _judged(
    frame: pd.DataFrame, names: tuple[str, ...], items: "pd.Index[Any]", find: Any
) -> Judged:
    codes, values = _codes(frame["item"])
    item = np.append(items.get_indexer(values), -1)[codes]
    first = find.find(item, *_codes(frame["first"]))
    if frame["second"].notna().any():
        second = find.find(item, *_codes(frame["second"]))
        second[(second < 0) & frame["second"].notna().to_numpy()] = -2
    else:
        second = np.full(len(frame), -1)
    codes, values = _codes(frame["rewarder"])
    rewarder = np.append(pd.Index(names).get_indexer(values), -1)[codes]
    codes, values = _codes(frame["outcome"])
    outcome = np.append(pd.Index(OUTCOMES).get_indexer(values), -1)[codes].astype(np.int8)
    keep = (item >= 0) & (first >= 0) & (second > -2) & (rewarder >= 0)
    vote = frame["vote"].to_numpy(dtype=np.int64)
    score = frame["score"].to_numpy(dtype=float, na_value=np.nan)
    judged = Judged(item, first, second, vote, outcome, score, {})
    if not (keep.all() and (rewarder[1:] >= rewarder[:-1]).all()):  # usually as they were stored
        order = np.argsort(rewarder, kind="stable")
        order = order[keep[order]]
        judged, rewarder = judged.take(order), rewarder[order]
    edges = np.searchsorted(rewarder, np.arange(len(names) + 1))
    return replace(
        judged, bounds={n: (int(edges[i]), int(edges[i + 1])) for i, n in enumerate(names)}
    )


def opinion(run: Run, located: Located, rewarder: str) -> Opinion | None:
    """What a rewarder said about candidates; None if it was never asked about them."""
    judged = run.candidates.of(rewarder)
    kind = run.kinds[rewarder]
    if not len(judged):
        return None
    compared = judged.second >= 0
    sort: Kind = "scores"
    if compared.any():
        sort = "preferences"
    elif kind == "listwise" or (judged.outcome == OUTCOMES.index("chosen")).any():
        sort = "choices"
    size = located.candidates.size
    first, second = located.places[judged.first], located.places[judged.second]
    here = first >= 0
    if sort == "preferences":
        here &= compared & (second >= 0)
    said = Said(
        first[here] // size,
        first[here] % size,
        second[here] % size,
        judged.outcome[here],
        judged.score[here],
    )
    made = make_opinion(sort, said, located.candidates)
    return made.measured() if made.asked else None
