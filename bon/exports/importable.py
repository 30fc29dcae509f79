"""A run as the tables that `bon import` reads again: what was answered, scored and said.

A folder per policy. Texts of preference pairs, tokens and times are no part of these tables.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from bon.core.records import PreferencePair, Question
from bon.engines.base import ImagePart
from bon.experiment.cards import Loaded
from bon.experiment.config import PolicyCard
from bon.exports.beside import Beside, write_lines
from bon.exports.contents import Contents
from bon.exports.scored import name_of
from bon.formats.tabled import WITHOUT_TEXT
from bon.running.saying import say
from bon.running.work import CandidatePool

Places = dict[str, dict[str, int | str]]
"""Item key -> text key -> what a table calls that response: its place, `chosen` or `rejected`."""


def write_importable(contents: Contents, out: Path) -> list[Path]:
    """Answers, scores and verdicts of each policy; says how they are imported."""
    judged = contents.tables.judgements
    listwise = sorted(set(judged[judged["outcome"] == "chosen"]["rewarder"]))
    if listwise:
        say(f"left out, because no table holds choices among many: {', '.join(listwise)}")
        judged = judged[~judged["rewarder"].isin(listwise)]
    written = []
    for policy in contents.setup.policies:
        folder = out / policy.card.name
        folder.mkdir(parents=True, exist_ok=True)
        written += _write(contents, policy, judged, folder)
    return written


def _write(
    contents: Contents, policy: Loaded[PolicyCard], judged: pd.DataFrame, folder: Path
) -> list[Path]:
    labels, places = _labels(contents), _places(contents, policy)
    rows = judged[judged["item"].isin(places)]
    compared = rows["second"].notna()
    tables = {
        **_answered(contents, policy, labels, folder),
        "pairs": _pairs(contents, labels),
        "verdicts": _verdicts(rows[compared], labels, places),
        "scores": _scores(rows[~compared & (rows["item_kind"] == "question")], labels, places),
        "pair_scores": _pair_scores(
            rows[~compared & (rows["item_kind"] == "pair")], labels, places
        ),
    }
    written = []
    for name, lines in tables.items():
        path = write_lines(lines, folder / f"{name}.jsonl")
        if path.stat().st_size:
            written.append(path)
        else:
            path.unlink()
    named = f" --benchmark {name_of(spec)}" if (spec := _benchmark(contents)) else ""
    name, reader = policy.card.name, policy.card.reader
    say(f"bon import {folder}/*.jsonl --policy {name} --reader {reader}{named}")
    return written


def _benchmark(contents: Contents) -> Any:
    """The reward benchmark that is written: an import has one."""
    return next(iter(contents.setup.experiment.pairs), None)


def _labels(contents: Contents) -> dict[str, str]:
    """What a table calls a question or pair: its id, or its key where another has that id."""
    items: list[Question | PreferencePair] = [*contents.store.questions()]
    items += [pair for _, pair in contents.store.pairs()]
    often = Counter((type(item), item.id) for item in items)
    return {item.key: item.id if often[type(item), item.id] == 1 else item.key for item in items}


def _places(contents: Contents, policy: Loaded[PolicyCard]) -> Places:
    """The responses of every item; equal texts are the first of them."""
    found: Places = {}
    frame = contents.tables.candidates
    own = frame[frame["policy"] == policy.card.name].sort_values("index", ascending=False)
    for item, key, index in zip(own["question"], own["text_key"], own["index"], strict=True):
        found.setdefault(item, {})[key] = int(index)
    pairs, spec = contents.tables.pairs, _benchmark(contents)
    if spec is not None:
        pairs = pairs[pairs["benchmark"] == name_of(spec)]
        for pair, preferred, one, two in zip(
            *(pairs[column] for column in ("pair", "preferred", "response_0", "response_1")),
            strict=True,
        ):
            sides = ("chosen", "rejected") if preferred == 0 else ("rejected", "chosen")
            found[pair] = dict(zip((one, two), sides, strict=True))
    return found


def _answered(
    contents: Contents, policy: Loaded[PolicyCard], labels: dict[str, str], folder: Path
) -> dict[str, Iterator[dict[str, Any]]]:
    """What was answered, or only who is right where no texts are known."""
    if contents.store.has("candidates", "spec = ? AND finish = ?", (policy.spec, WITHOUT_TEXT)):
        return {"candidates": _correct(contents, policy, labels)}
    return {"answers": _answers(contents, policy, labels, folder)}


def _correct(
    contents: Contents, policy: Loaded[PolicyCard], labels: dict[str, str]
) -> Iterator[dict[str, Any]]:
    pool = CandidatePool(contents.store, policy)
    for question in contents.store.questions():
        yield {
            "id": labels[question.key],
            "question": question.text,
            "subject": question.subject,
            "difficulty": question.difficulty,
            "candidates": [
                {"correct": row.answer == question.answer, "answer": row.answer}
                for row in pool.candidates(question)
            ],
        }


def _answers(
    contents: Contents, policy: Loaded[PolicyCard], labels: dict[str, str], folder: Path
) -> Iterator[dict[str, Any]]:
    beside, pool = Beside(folder), CandidatePool(contents.store, policy)
    for question in contents.store.questions():
        images = [
            beside.put(ImagePart(ref.sha256, Path(ref.path).read_bytes()))
            for ref in question.images
        ]
        yield {
            "id": labels[question.key],
            "question": question.text,
            "options": list(question.options),
            "answer": question.answer,
            "subject": question.subject,
            "topic_difficulty": question.difficulty,
            "images": images,
            "response": [
                None if row.outcome == "error" else row.text for row in pool.candidates(question)
            ],
        }


def _pairs(contents: Contents, labels: dict[str, str]) -> Iterator[dict[str, Any]]:
    spec = _benchmark(contents)
    for benchmark, pair in contents.store.pairs():
        if benchmark == name_of(spec):
            yield {"id": labels[pair.key], "prompt": pair.prompt, "group": pair.group}


def _verdicts(
    rows: pd.DataFrame, labels: dict[str, str], places: Places
) -> Iterator[dict[str, Any]]:
    for row in rows.to_dict("records"):
        at = places[row["item"]]
        if row["first"] in at and row["second"] in at:
            yield {
                "rewarder": row["rewarder"],
                "item": labels[row["item"]],
                "first": at[row["first"]],
                "second": at[row["second"]],
                "outcome": row["outcome"],
            }


def _mean_scores(rows: pd.DataFrame) -> dict[tuple[str, str, str], float | None]:
    """(rewarder, item, response) -> mean over the votes; None where none was read."""
    found: dict[tuple[str, str, str], list[float]] = {}
    for row in rows.to_dict("records"):
        votes = found.setdefault((row["rewarder"], row["item"], row["first"]), [])
        votes += [row["score"]] if row["outcome"] == "scored" else []
    return {key: sum(votes) / len(votes) if votes else None for key, votes in found.items()}


def _scores(rows: pd.DataFrame, labels: dict[str, str], places: Places) -> Iterator[dict[str, Any]]:
    for (rewarder, item, first), score in _mean_scores(rows).items():
        if first in places[item]:
            place = places[item][first]
            yield {
                "rewarder": rewarder, "question": labels[item], "candidate": place, "score": score
            }  # fmt: skip


def _pair_scores(
    rows: pd.DataFrame, labels: dict[str, str], places: Places
) -> Iterator[dict[str, Any]]:
    sides: dict[tuple[str, str], dict[str, float | None]] = {}
    for (rewarder, item, first), score in _mean_scores(rows).items():
        sides.setdefault((rewarder, item), {})[str(places[item][first])] = score
    for (rewarder, item), both in sides.items():
        yield {"rewarder": rewarder, "pair": labels[item], **both}
