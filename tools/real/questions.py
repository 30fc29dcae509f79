"""Easy questions with known answers and preference pairs about others, for small models."""

import json
import random
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

Row = Mapping[str, Any]
FACTS = Path(__file__).with_name("facts.txt")  # question | right | three wrong answers


def write_study(folder: Path, share: float = 1) -> list[dict[str, str]]:
    """Write questions and pairs, `share` of each; return the pairs to train a reward head on.

    No fact or sum is used twice: with options, without, in a set of pairs or in training.
    """
    facts = [[part.strip() for part in line.split("|")] for line in FACTS.read_text().splitlines()]
    random.Random("facts").shuffle(facts)
    sums = list(_sums(210))
    _write(folder / "options.jsonl", _with_options(facts[:40] + sums[:60]), share)
    _write(folder / "numbers.jsonl", _without_options(sums[60:100], " Give the number."), share)
    _write(folder / "words.jsonl", _without_options(facts[40:55], " Give the name alone."), share)
    _write(folder / "fact_pairs.jsonl", _pairs(facts[55:68]), share)
    _write(folder / "sum_pairs.jsonl", _pairs(sums[100:140]), share)
    return list(_pairs(facts[68:] + sums[140:]))


def _sums(number: int) -> Iterator[list[str]]:
    random_ = random.Random("sums")
    seen: set[tuple[str, int, int]] = set()
    while len(seen) < number:
        sign, left, right = random_.choice("+-x"), random_.randint(2, 20), random_.randint(2, 20)
        left, right = max(left, right), min(left, right) if sign != "x" else min(left, right, 5)
        if left == right or (sign, left, right) in seen:
            continue
        seen.add((sign, left, right))
        value = {"+": left + right, "-": left - right, "x": left * right}[sign]
        wrong = random_.sample(
            [value + by for by in (-3, -2, -1, 1, 2, 3, 10) if value + by >= 0], 3
        )
        yield [f"What is {left} {sign} {right}?", str(value), *map(str, wrong)]


def _with_options(rows: Iterable[list[str]]) -> Iterator[Row]:
    random_ = random.Random("options")
    for question, right, *wrong in rows:
        options = random_.sample([right, *wrong], 4)
        yield {"question": question, "options": options, "answer": "ABCD"[options.index(right)]}


def _without_options(rows: Iterable[list[str]], ask: str) -> Iterator[Row]:
    for question, right, *_ in rows:
        yield {"question": question + ask, "answer": right}


def _pairs(rows: Iterable[list[str]]) -> Iterator[dict[str, str]]:
    for question, right, *wrong in rows:
        for other in wrong:
            yield {"prompt": question, "chosen": right, "rejected": other, "cluster": question}


def _write(file: Path, rows: Iterable[Row], share: float) -> None:
    rows = list(rows)
    rows = rows[: max(1, round(share * len(rows)))]
    file.parent.mkdir(parents=True, exist_ok=True)
    lines = (json.dumps({"id": f"{file.stem}-{i}", **row}) for i, row in enumerate(rows))
    file.write_text("".join(f"{line}\n" for line in lines))
