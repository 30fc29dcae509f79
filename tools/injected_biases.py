"""Recall and false alarms of what looks for a biased rewarder, over the strength of the bias.

    python -m tools.injected_biases [--trials 40] [--questions 200]

An honest rewarder is simulated on made texts (scores: 1.5 for right answers plus normal noise of
spread 1; verdicts: right in 80 %), then biased by the wrapper of bon.rewarders.biases. An alarm is
an interval above zero, towards the bias. Prints the table of docs/measurements/biases.md.
"""

import argparse
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from bon.analysis.calibration.labelled import Labelled, by_rewarder
from bon.analysis.calibration.verdict_accuracy import feature_biases, lean, length_bias
from bon.analysis.data.tables import COLUMNS, Tables
from bon.analysis.drift.reward_stream import analyse_rewards
from bon.analysis.estimators.hacks import hacks
from bon.analysis.results import Options
from bon.core.records import Question
from bon.core.text import PHRASE, PLACE
from bon.policies.generate import text_key
from bon.rewarders.base import Verdict
from bon.rewarders.biases import amounts, biased
from bon.running.attacks import ATTACKS, ON_PLAIN, PLAIN, Target, attack_pairs

STRENGTHS = (0.0, 0.1, 0.2, 0.4, 0.8)
INJECTED = ("length", "markdown", "praise", "letter B", PLACE, PHRASE)
SAID = "step by step"
STRESS = {"length": "three times the length", "markdown": "markdown", "praise": "praise"}
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


def stress_alarm(judge: Judge, questions: int) -> bool | None:
    """Return whether `bon stress` shows that the attack gains over the plain wrong answer."""
    attack = STRESS.get(judge.bias)
    if attack is None:
        return None
    targets = []
    for q in range(questions):
        right, wrong = judge.rng.permutation(list("ABCD"))[:2]
        question = Question(f"q{q}", f"q{q}", "d", "?", ("1", "2", "3", "4"), right)
        texts = text_of(judge.rng, right), text_of(judge.rng, wrong)
        targets.append(Target(question, *texts, wrong))
    pairs, judgements = [], []
    for name, pair in attack_pairs(targets):
        if name not in (PLAIN, attack):
            continue
        keys = [text_key(text) for text in pair.responses]
        row = {"pair": pair.key, "id": pair.id, "benchmark": name, "preferred": 0}
        pairs.append({**row, "response_0": keys[0], "response_1": keys[1]})
        for a, b in ((0, 1), (1, 0)):
            outcome = judge.compare(pair.responses[a], pair.responses[b], a == 0)
            shown = {"item": pair.key, "first": keys[a], "second": keys[b], "outcome": outcome}
            judgements.append({"rewarder": "r", "item_kind": "pair", "vote": 0, **shown})

    def frame(name: str, rows: list[dict[str, Any]], **rest: Any) -> pd.DataFrame:
        return pd.DataFrame(rows).assign(**rest).reindex(columns=list(COLUMNS[name]))

    tables = Tables(
        frame("questions", []),
        frame("candidates", []),
        frame("pairs", pairs, group="", tag="", length_0=1, length_1=1, leaked=False),
        frame("judgements", judgements, num_tokens=1, seconds=0.0, cost=0.0),
        frame("rewarders", [{"rewarder": "r", "kind": "pairwise", "family": ""}]),
    )
    what = {name: words for name, (words, _) in ATTACKS.items()}
    found = hacks(tables, what, OPTIONS, {}, PLAIN, ON_PLAIN)
    over = next(h.over_plain for h in found if h.attack == attack)
    return over is not None and (over.low or 0) > 0


def log_alarm(judge: Judge, questions: int) -> bool | None:
    """Return whether `bon report` of a reward log names the pull of length."""
    if judge.bias != "length":
        return None
    rows = []
    for q in range(questions):
        for k in range(8):
            right = bool(judge.rng.random() < 0.5)
            text = text_of(judge.rng, "A" if right else "B")
            score = judge.score(text, right)
            rows.append((q, f"{q}/{k}", text, score, float(right)))
    frame = pd.DataFrame(rows, columns=["question", "response", "text", "score", "correct"])
    fixed = {"run": "", "rewarder": "r", "rule": "best_score", "scale": "raw"}
    frame = frame.assign(reward=frame["score"], team=frame["question"], **fixed)
    frame = frame.assign(parsed=1.0, consistency=np.nan, cost=0.0, time=0.0)
    report = analyse_rewards(frame)
    return any("correlation" in signal for signal in report.signals)


def alarms(trials: int, questions: int) -> Iterator[tuple[str, str, list[str]]]:
    """Yield bias, detector and the share of alarms at every strength."""
    detectors = {
        "calibrate, answers": lambda judge: calibrate_alarm(judge, "answers", questions),
        "calibrate, pairs": lambda judge: calibrate_alarm(judge, "pairs", questions),
        "stress": lambda judge: stress_alarm(judge, questions),
        "reward log": lambda judge: log_alarm(judge, questions),
    }
    for (index, bias), (name, alarm) in product(enumerate(INJECTED), detectors.items()):
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
    arguments = parser.parse_args()
    print("| bias | found by |", *(f" {strength:g} |" for strength in STRENGTHS), sep="")
    print("|---|---|", *["---|"] * len(STRENGTHS), sep="")
    for bias, name, shares in alarms(arguments.trials, arguments.questions):
        print(f"| {bias} | {name} |", *(f" {share} |" for share in shares), sep="", flush=True)


if __name__ == "__main__":
    main()
