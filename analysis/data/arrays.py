"""From tables to arrays: pools of candidates, and what each rewarder said about them.

Text keys are only unique within a question, so a response is a (question, text) pair. Two
candidates with the same text are one response: they were judged once and they tie.
"""

from dataclasses import dataclass
from itertools import pairwise
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
    """What one rewarder said about one kind of item, as arrays with a place per judgement.

    Rewarders that were asked the same in the same order share all but `outcome` and `score`.
    """

    item: Ints
    first: Ints
    second: Ints
    vote: Ints
    outcome: NDArray[np.int8]
    score: Floats

    def take(self, rows: Ints) -> "Judged":
        """Some of the judgements."""
        return Judged(
            self.item[rows],
            self.first[rows],
            self.second[rows],
            self.vote[rows],
            self.outcome[rows],
            self.score[rows],
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
    """A run as arrays; of every rewarder what it said about `candidates` and about `pairs`.

    `rows`: which rows of the table of judgements are whose.
    """

    tables: Tables
    pools: dict[str, Pool]
    candidates: dict[str, Judged]
    pairs: dict[str, Judged]
    rows: dict[str, slice | Ints]
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
    names = tuple(str(r) for r in tables.rewarders["rewarder"])
    said = _Judgements(tables.judgements)
    sides = tables.pairs[["response_0", "response_1"]].to_numpy()
    return Run(
        tables,
        pools,
        said.by(names, False, questions, _Responses(keys, known)),
        said.by(names, True, pd.Index(tables.pairs["pair"]), _Sides(sides)),
        said.rows,
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

    def __init__(self, texts: "pd.Index[Any]", known: Ints) -> None:
        self.texts, self.known = texts, known

    def find(self, item: Ints, text: Ints) -> Ints:
        """Its place, by the numbers of both; −1 where nobody sampled it."""
        if not len(self.known):
            return np.full(len(item), -1)
        joint = item * len(self.texts) + text
        place = np.minimum(np.searchsorted(self.known, joint), len(self.known) - 1)
        return np.where((text >= 0) & (item >= 0) & (self.known[place] == joint), place, -1)


class _Sides:
    """Finds which side of a pair a text is: 0 or 1."""

    def __init__(self, sides: NDArray[Any]) -> None:
        self.texts = pd.Index(pd.unique(sides.ravel()))
        self.codes = self.texts.get_indexer(pd.Index(sides.ravel())).reshape(sides.shape)

    def find(self, item: Ints, text: Ints) -> Ints:
        """The side, by the numbers of both; −1 where it is neither."""
        if not len(self.codes):
            return np.full(len(item), -1)
        own = self.codes[np.maximum(item, 0)]
        side = np.where(own[:, 0] == text, 0, np.where(own[:, 1] == text, 1, -1))
        return np.where((item >= 0) & (text >= 0), side, -1)


class _Judgements:
    """The table of judgements as codes, and which of its rows are whose."""

    def __init__(self, table: pd.DataFrame) -> None:
        self.on_pairs = np.asarray(table["item_kind"] == "pair", dtype=bool)
        self.item, self.first, self.second = (_codes(table[c]) for c in ("item", "first", "second"))
        self.vote = table["vote"].to_numpy()
        self.outcome, outcomes = _codes(table["outcome"])
        self.outcomes = _numbers(pd.Index(OUTCOMES), outcomes).astype(np.int8)
        score = table["score"]
        self.score = (
            score.to_numpy()
            if score.dtype == np.float64
            else score.to_numpy(dtype=float, na_value=np.nan)
        )
        codes, rewarders = _codes(table["rewarder"])
        order, starts = None, _starts(codes)
        if len(np.unique(codes[starts])) < len(starts):  # usually one comes after the other
            order = np.argsort(codes, kind="stable")
            codes = codes[order]
            starts = _starts(codes)
        self.rows: dict[str, slice | Ints] = {
            str(rewarders[codes[a]]): slice(a, b) if order is None else order[a:b]
            for a, b in pairwise(np.append(starts, len(codes)))
            if codes[a] >= 0
        }

    def by(
        self,
        names: tuple[str, ...],
        pairs: bool,
        items: "pd.Index[Any]",
        known: _Responses | _Sides,
    ) -> dict[str, Judged]:
        """What each said about pairs, or about questions; what is not known is left out."""
        columns = [self.item[0], self.first[0], self.second[0], self.vote]
        item_of = _numbers(items, self.item[1])
        texts_of = [_numbers(known.texts, values) for _, values in (self.first, self.second)]
        found: dict[str, Judged] = {}
        before: list[NDArray[np.integer]] = []
        for name in names:
            rows = self.rows.get(name, slice(0))
            here = self.on_pairs[rows] == pairs
            asked = [column[rows][here] for column in columns]
            if not before or not all(map(np.array_equal, asked, before)):
                before = asked
                item = item_of[asked[0]]
                texts = zip(texts_of, asked[1:3], strict=True)
                first, second = (known.find(item, numbers[codes]) for numbers, codes in texts)
                keep = (item >= 0) & (first >= 0) & ((second >= 0) | (asked[2] < 0))
                item, first, second = item[keep], first[keep], second[keep]
                vote = asked[3][keep].astype(np.int64)
            outcome = self.outcomes[self.outcome[rows][here][keep]]
            score = self.score[rows][here][keep]
            found[name] = Judged(item, first, second, vote, outcome, score)
        return found


def _codes(column: "pd.Series[Any]") -> tuple[NDArray[np.integer], "pd.Index[Any]"]:
    """Integer codes of a column (−1 missing) and what they stand for."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        return column.cat.codes.to_numpy(), column.cat.categories
    codes, values = pd.factorize(column)
    return codes, pd.Index(values)


def _numbers(known: "pd.Index[Any]", values: "pd.Index[Any]") -> Ints:
    """The places of values among known ones; −1 for others, and at the end for what is missing."""
    return np.append(known.get_indexer(values), -1)


def _starts(codes: NDArray[np.integer]) -> Ints:
    """Where another code begins."""
    return np.flatnonzero(np.diff(codes, prepend=codes.dtype.type(-2)))


def opinion(run: Run, located: Located, rewarder: str) -> Opinion | None:
    """What a rewarder said about candidates; None if it was never asked about them."""
    judged = run.candidates[rewarder]
    kind = run.kinds[rewarder]
    if not len(judged):
        return None
    compared = judged.second >= 0
    sort: Kind = "scores"
    if compared.any():
        sort = "preferences"
    elif kind == "listwise" or (judged.outcome == OUTCOMES.index("chosen")).any():
        sort = "choices"
    size, first = located.candidates.size, located.places[judged.first]
    here = first >= 0
    second = np.broadcast_to(-1, first.shape)
    if sort == "preferences":
        second = located.places[judged.second]
        here &= compared & (second >= 0)
        second = second % size
    question = first // size
    rows: Bools | slice = slice(None) if here.all() else here
    said = Said(
        question[rows],
        (first - question * size)[rows],
        second[rows],
        judged.outcome[rows],
        judged.score[rows],
    )
    made = make_opinion(sort, said, located.candidates)
    return made.measured() if made.asked else None
