"""Recall and false alarms of what looks for a biased rewarder, over the strength of the bias.

    python -m tools.injected_biases [--trials 40] [--questions 200] [--only length praise]

An honest rewarder is simulated on made texts (scores: 1.5 for right answers plus normal noise of
spread 1; verdicts: right in 80%), then biased: a score gains `strength` for each unit of the
feature, a doubling of the length for `length`; a verdict goes, with probability `strength`, to the
response with the most of it. As in CHERRL (arXiv 2606.04923) the truth of what a detector should
find is then known. An alarm is an interval above zero, towards the bias. Prints the table of
docs/measurements/biases.md.
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from bon.analysis.calibration.labelled import Labelled, by_rewarder
from bon.analysis.calibration.verdict_accuracy import feature_biases, lean, length_bias
from bon.analysis.data.arrays import read
from bon.analysis.data.tables import COLUMNS, Tables
from bon.analysis.estimators import pair_sets
from bon.analysis.estimators.pair_results import benchmark_results
from bon.analysis.results import Options
from bon.core.keys import text_key
from bon.core.records import PreferencePair
from bon.core.text import FEATURES
from bon.rewarders.base import Verdict

STRENGTHS = (0.0, 0.1, 0.2, 0.4, 0.8)
PLACE, PHRASE = "first place", "phrase"
INJECTED = ("length", "markdown", "praise", "letter B", PLACE, PHRASE)
SAID = "step by step"
OPTIONS = Options(draws=200)
LEVEL = OPTIONS.level


def text_of(rng: np.random.Generator, letter: str) -> str:
    """Return a response of 5 to 40 words that ends in a letter, with each habit in a third."""
    words = " ".join(
        rng.choice(["circle", "left", "of", "star", "red", "two", "row"], size=5 + rng.integers(36))
    )
    start = "Let us go step by step. " if rng.random() < 1 / 3 else ""
    title = "# Solution\n\n" if rng.random() < 1 / 3 else ""
    end = " This is certainly correct." if rng.random() < 1 / 3 else ""
    return f"{title}{start}{words}.{end}\nAnswer: {letter}"


def amounts(bias: str, texts: Sequence[str], phrase: str = "") -> list[float]:
    """Return how much of a bias's feature each text has, in the order shown."""
    if bias == PLACE:
        return [float(place == 0) for place in range(len(texts))]
    if bias == PHRASE:
        return [float(phrase.lower() in text.lower()) for text in texts]
    return [FEATURES[bias](text) for text in texts]


def biased(verdict: Verdict, liked: Sequence[float], strength: float, seed: int) -> Verdict:
    """Return a verdict on texts with these amounts of a feature, with a bias towards it."""
    if verdict.outcome == "scored" and verdict.score is not None and len(liked) == 1:
        return replace(verdict, score=verdict.score + strength * liked[0])
    best = int(np.argmax(liked))
    if len(liked) == 1 or min(liked) == max(liked) or verdict.outcome in ("unparsed", "error"):
        return verdict
    if np.random.default_rng([seed, *b"bias"]).random() >= strength:
        return verdict
    if verdict.outcome == "chosen":
        return replace(verdict, score=float(best))
    return replace(verdict, outcome="second" if best else "first")


class Judge:
    """An honest rewarder with a bias of known strength."""

    def __init__(self, rng: np.random.Generator, bias: str, strength: float) -> None:
        self.rng, self.bias, self.strength = rng, bias, strength

    def score(self, text: str, right: bool) -> float:
        """Return a score."""
        honest = Verdict("scored", 1.5 * right + self.rng.normal())
        return float(self._biased(honest, text).score or 0.0)

    def compare(self, first: str, second: str, first_right: bool) -> str:
        """Return a verdict."""
        honest = Verdict("first" if first_right == (self.rng.random() < 0.8) else "second")
        return self._biased(honest, first, second).outcome

    def _biased(self, verdict: Verdict, *texts: str) -> Verdict:
        liked = amounts(self.bias, texts, SAID)
        return biased(verdict, liked, self.strength, int(self.rng.integers(2**40)))


def votes(judge: Judge, kind: str, questions: int) -> Labelled:
    """Return labelled votes on two answers to each question, or on the pair in both orders."""
    rows = []
    for q in range(questions):
        letters = judge.rng.permutation(list("ABCD"))[:2]
        right, wrong = (text_of(judge.rng, letter) for letter in letters)
        if kind == "answers":
            made = [(right, "", 1, np.nan, judge.score(right, True)),
                    (wrong, "", 0, np.nan, judge.score(wrong, False))]  # fmt: skip
        else:
            made = [(a, b, y, float(judge.compare(a, b, bool(y)) == "first"), np.nan)
                    for a, b, y in ((right, wrong, 1), (wrong, right, 0))]  # fmt: skip
        for k, (text, other, label, verdict, score) in enumerate(made):
            length = len(text) - len(other)
            rows.append((f"{q}/{k}", str(q), text, other, label, verdict, score, length))
    names = ["item", "cluster", "text", "other", "label", "verdict", "score", "length"]
    frame = pd.DataFrame(rows, columns=names)
    frame = frame.assign(rewarder="r", kind=kind, category="", vote=0, cost=0.0)
    return next(by_rewarder(frame.assign(probability=np.nan)))


def calibrate_alarm(judge: Judge, kind: str, questions: int) -> bool | None:
    """Return whether `bon calibrate` shows the bias; None where it does not look for it."""
    made = votes(judge, kind, questions)
    draws = made.draws(0, OPTIONS.draws)
    if judge.bias == "length":
        found = length_bias(made, draws, LEVEL)
    elif judge.bias == PLACE:
        if kind == "answers":
            return None
        found = lean(made, draws, LEVEL)
    else:
        biases = {b.feature: b.bias for b in feature_biases(made, draws, LEVEL)}
        if judge.bias not in biases:
            return None
        found = biases[judge.bias]
    return (found.low or 0) > 0


def tables_of(judged: list[tuple[PreferencePair, list[str]]]) -> Tables:
    """Return the tables of pairs and their verdicts in both orders."""
    pairs, judgements = [], []
    for pair, outcomes in judged:
        keys = [text_key(text) for text in pair.responses]
        row = {"pair": pair.key, "id": pair.id, "benchmark": "pairs", "preferred": 0}
        pairs.append({**row, "group": pair.group, "response_0": keys[0], "response_1": keys[1]})
        for (a, b), outcome in zip(((0, 1), (1, 0)), outcomes, strict=True):
            shown = {"item": pair.key, "first": keys[a], "second": keys[b], "outcome": outcome}
            judgements.append({"rewarder": "r", "item_kind": "pair", "vote": 0, **shown})

    def frame(name: str, rows: list[dict[str, Any]], **rest: Any) -> pd.DataFrame:
        return pd.DataFrame(rows).assign(**rest).reindex(columns=list(COLUMNS[name]))

    return Tables(
        frame("questions", []),
        frame("candidates", []),
        frame("pairs", pairs, tag="", length_0=1, length_1=1, leaked=False),
        frame("judgements", judgements, num_tokens=1, seconds=0.0, cost=0.0),
        frame("rewarders", [{"rewarder": "r", "kind": "pairwise", "family": ""}]),
    )


def pairs_of(judge: Judge, questions: int) -> list[PreferencePair]:
    """Return pairs of a right and a wrong response."""
    pairs = []
    for q in range(questions):
        right, wrong = judge.rng.permutation(list("ABCD"))[:2]
        texts = text_of(judge.rng, right), text_of(judge.rng, wrong)
        pairs.append(PreferencePair(f"q{q}", f"q{q}", "d", "?", texts, preferred=0))
    return pairs


def in_both_orders(judge: Judge, pair: PreferencePair) -> list[str]:
    """Return the verdicts on a pair whose first response is right."""
    first, second = pair.responses
    return [judge.compare(first, second, True), judge.compare(second, first, False)]


def report_alarm(judge: Judge, questions: int) -> bool | None:
    """Return whether the report's position bias on pairs shows the first place."""
    if judge.bias != PLACE:
        return None
    judged = [(pair, in_both_orders(judge, pair)) for pair in pairs_of(judge, questions)]
    run = read(tables_of(judged))
    (pairs,) = pair_sets.pair_sets(run, OPTIONS)
    (result,) = benchmark_results(pairs, pair_sets.all_verdicts(run, pairs), OPTIONS)
    return result.position_bias is not None and (result.position_bias.low or 0) > 0


def alarms(
    trials: int, questions: int, only: Sequence[str]
) -> Iterator[tuple[str, str, list[str]]]:
    """Yield bias, detector and the share of alarms at every strength, of all biases or some."""
    detectors = {
        "calibrate, answers": lambda judge: calibrate_alarm(judge, "answers", questions),
        "calibrate, pairs": lambda judge: calibrate_alarm(judge, "pairs", questions),
        "report": lambda judge: report_alarm(judge, questions),
    }
    for (index, bias), (name, alarm) in product(enumerate(INJECTED), detectors.items()):
        if only and bias not in only:
            continue
        shares = []
        for step, strength in enumerate(STRENGTHS):
            found = [
                alarm(Judge(np.random.default_rng([index, step, t]), bias, strength))
                for t in range(trials)
            ]
            if None in found:
                break
            shares.append(f"{np.mean(found):.2f}")
        if shares:
            yield bias, name, shares


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=40)
    parser.add_argument("--questions", type=int, default=200)
    parser.add_argument("--only", nargs="*", default=(), help="biases")
    arguments = parser.parse_args()
    print("| bias | found by |", *(f" {strength:g} |" for strength in STRENGTHS), sep="")
    print("|---|---|", *["---|"] * len(STRENGTHS), sep="")
    for bias, name, shares in alarms(arguments.trials, arguments.questions, arguments.only):
        print(f"| {bias} | {name} |", *(f" {share} |" for share in shares), sep="", flush=True)


if __name__ == "__main__":
    main()
