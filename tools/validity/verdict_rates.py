"""Rates of each verdict on studies of known truth: what is claimed wrongly, and what is found.

A study draws true qualities of n rewarders on both axes, and right or wrong answers to questions
and pairs of different difficulty; the covariance of the measured accuracies is that of the answers.

python -m tools.validity.verdict_rates [STUDIES]
"""

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy import special

from bon.analysis.verdict.verdict import Axes, adjusted_of, word_of
from tools.validity.populations import DIFFICULTY, answers

Floats = NDArray[np.float64]
Qualities = tuple[Floats, Floats, list[str]]
Draw = Callable[[np.random.Generator], Qualities]

STUDIES = 200
PAIRS, QUESTIONS = 600, 500
SPREADS, EASY = (0.30, 0.25), 0.3
"""Standard deviations of rewarders on either axis, and what makes items easy, in probits."""


@dataclass(frozen=True)
class Cell:
    """A population: `draw` gives standardised qualities (n) and the base model of each.

    Qualities of the second axis are (policies, n) where several policies choose, each from answers
    of its own; the study is of their mean. errors: the words that would be errors. size: the name
    of a covariate equal to the qualities' common cause, if there is one.
    """

    name: str
    draw: Draw
    errors: tuple[str, ...] = ("yes",)
    items: tuple[int, int] = (PAIRS, QUESTIONS)
    scale: float = 1.0

    def study(self, seed: int) -> Axes:
        """Simulate one study."""
        rng = np.random.default_rng([seed, *self.name.encode()])
        x, y, bases = self.draw(rng)
        size: Floats | None = None
        makers: tuple[str, ...] = ()
        if bases and bases[0].startswith("size "):
            size = np.array([float(b.removeprefix("size ")) for b in bases])[:, None]
            bases = [""] * len(x)
        if bases and bases[0].startswith("maker "):
            makers, bases = tuple(bases), [""] * len(x)
        on_x, on_y = (
            np.mean(
                [
                    right_or_wrong(rng, q * self.scale * spread, count)
                    for q in np.atleast_2d(quality)
                ],
                axis=0,
            )
            for quality, spread, count in zip((x, y), SPREADS, self.items, strict=True)
        )
        return Axes(
            tuple(map(str, range(len(x)))),
            on_x.mean(axis=0),
            on_y.mean(axis=0),
            np.cov(on_x.T) / len(on_x),
            np.cov(on_y.T) / len(on_y),
            tuple(bases),
            makers,
            size,
            ("size",) if size is not None else (),
        )


def true_accuracy(quality: Floats) -> Floats:
    """Return the accuracy of a quality in probits, which `right_or_wrong` draws from."""
    return np.asarray(special.ndtr(quality + EASY / np.sqrt(1 + DIFFICULTY**2)))


def right_or_wrong(rng: np.random.Generator, quality: Floats, items: int) -> Floats:
    """Draw right or wrong answers (items, n) to items of shared difficulty."""
    return answers(rng, quality * np.sqrt(1 + DIFFICULTY**2) + EASY, items).astype(float)


# ------------------------------------------------------------------ populations


def _pair(rng: np.random.Generator, r: float, n: int) -> tuple[Floats, Floats]:
    x = rng.normal(size=n)
    return x, r * x + np.sqrt(1 - r * r) * rng.normal(size=n)


def normal(rng: np.random.Generator, n: int, r: float, bases: int = 0) -> Qualities:
    """Bivariate normal; rewarders of one of `bases` share half of both variances."""
    x, y = _pair(rng, r, n)
    if not bases:
        return x, y, [f"own {i}" for i in range(n)]
    of = np.arange(n) % bases
    shared = _pair(rng, r, bases)
    x, y = (np.sqrt(0.5) * (s[of] + v) for s, v in zip(shared, (x, y), strict=True))
    return x, y, [f"base {k}" for k in of]


def policies(rng: np.random.Generator, n: int, r: tuple[float, ...]) -> Qualities:
    """Policies of these r; half of what scores leave open is the same for all of them."""
    x, common = rng.normal(size=(2, n))
    rest = np.sqrt(0.5) * (common + rng.normal(size=(len(r), n)))
    each = np.array(r)[:, None]
    return x, each * x + np.sqrt(1 - each**2) * rest, [f"own {i}" for i in range(n)]


def groups(rng: np.random.Generator, sizes: Iterable[int], gap: float, declared: bool) -> Qualities:
    """Groups on a rising line, unrelated inside, `gap` standard deviations apart."""
    of = np.repeat(np.arange(len(list(sizes))), list(sizes))
    x, y = (gap * (of - of.mean()) + rng.normal(size=len(of)) for _ in range(2))
    unit = max(1.0, float(np.std(gap * of)) / 1.5)
    return x / unit, y / unit, [f"base {k}" if declared else f"own {i}" for i, k in enumerate(of)]


def curved(rng: np.random.Generator, n: int, convex: bool) -> Qualities:
    """A bent line that rises everywhere, without an inner association of its own."""
    x = rng.normal(size=n)
    y = np.exp(x) / 2.16 if convex else np.tanh(1.5 * x) / 0.73
    return x, y + 0.25 * rng.normal(size=n), [f"own {i}" for i in range(n)]


def ceiling(rng: np.random.Generator, n: int) -> Qualities:
    """Better scores stop to help at the middle."""
    x = rng.normal(size=n)
    return x, 1.2 * np.minimum(x, 0) + 0.35 * rng.normal(size=n), [f"own {i}" for i in range(n)]


def heavy(rng: np.random.Generator, n: int, r: float) -> Qualities:
    """A bivariate t distribution of two degrees of freedom."""
    tail = np.sqrt(rng.chisquare(2, size=n) / 2)
    x, y = (np.clip(v / tail, -6, 6) for v in _pair(rng, r, n))
    return x, y, [f"own {i}" for i in range(n)]


def sized(rng: np.random.Generator, n: int) -> Qualities:
    """Log size moves both axes; at equal size they are unrelated."""
    size = rng.choice([-1.5, -0.9, -0.3, 0.3, 0.9, 1.5], size=n)
    x, y = (size + 0.35 * rng.normal(size=n) for _ in range(2))
    return x, y, [f"size {s}" for s in size]


def ladder(rng: np.random.Generator, own: int, others: int) -> Qualities:
    """One maker's models on a line, and others that are unrelated and close together."""
    line = np.linspace(-1.7, 1.7, own)
    x = np.append(line, 0.4 * rng.normal(size=others))
    y = np.append(line + 0.1 * rng.normal(size=own), 0.4 * rng.normal(size=others))
    return x, y, ["maker lab"] * own + [f"maker {i}" for i in range(others)]


BASES = {8: 5, 14: 6, 24: 8, 40: 12}
NO = ("no", "weak", "reverse")
POWER = tuple(
    Cell(
        f"r = {r:g}, {n} rewarders" + (f" of {bases} base models" if bases else ""),
        partial(normal, n=n, r=r, bases=bases),
        NO if r > 0.5 else ("yes",) if r < 0.5 else ("yes", *NO),
    )
    for r in (0.9, 0.7, 0.5, 0.2, 0.0)
    for n in BASES
    for bases in (0, BASES[n])
)
BENT = tuple(
    Cell(f"{name}, {n} rewarders", partial(draw, n=n), NO)
    for name, draw in (
        ("convex", partial(curved, convex=True)),
        ("saturating", partial(curved, convex=False)),
        ("heavy tails, r = .9", partial(heavy, r=0.9)),
    )
    for n in BASES
)
SEVERAL = tuple(
    Cell(f"{len(r)} policies, r = {each}, {n} rewarders", partial(policies, n=n, r=r), errors)
    for r, each, errors in (
        ((0.9,) * 3, "0.9 each", NO),
        ((0.9,) * 6, "0.9 each", NO),
        ((0.5,) * 3, "0.5 each (0.58 of the mean)", NO),
        ((0.9, 0.0, 0.0), "0.9, 0, 0 (0.41 of the mean)", ("yes",)),
        ((0.0,) * 3, "0 each", ("yes",)),
        ((0.0,) * 6, "0 each", ("yes",)),
    )
    for n in (8, 14, 24)
)
NOISE = tuple(
    Cell(f"{what}, {n} rewarders, 60 pairs, 60 questions", partial(normal, n=n, r=1.0),
         ("yes", *NO) if not scale else NO, (60, 60), scale)
    for what, scale in (("identical", 0.0), ("close, r = 1", 0.35))
    for n in (8, 14, 30, 40)
)  # fmt: skip
SHAPES = (
    *(
        Cell(name, partial(groups, sizes=sizes, gap=gap, declared=declared))
        for name, sizes, gap, declared in (
            *((f"one of {n} broken, 8 SD below", (1, n - 1), 8.0, False) for n in BASES),
            ("3 of 8 broken, 5 SD below", (3, 5), 5.0, False),
            ("4 of 14 broken, 5 SD below", (4, 10), 5.0, False),
            ("8 of 24 broken, 5 SD below", (8, 16), 5.0, False),
            ("13 of 40 broken, 5 SD below", (13, 27), 5.0, False),
            *((f"three groups of {k}, 3 SD apart", (k,) * 3, 3.0, False) for k in (3, 5, 8, 13)),
            *((f"three groups of {k}, 2 SD apart", (k,) * 3, 2.0, False) for k in (3, 5, 8, 13)),
            ("3 declared base models of 5 on a line", (5,) * 3, 3.0, True),
            ("5 declared base models of 3 on a line", (3,) * 5, 3.0, True),
            ("5 declared base models of 5 on a line", (5,) * 5, 3.0, True),
            ("5 declared base models of 8 on a line", (8,) * 5, 3.0, True),
        )
    ),
    *(Cell(f"flat above the middle, {n} rewarders", partial(ceiling, n=n)) for n in BASES),
    *(Cell(f"heavy tails, r = 0, {n} rewarders", partial(heavy, n=n, r=0.0)) for n in BASES),
    *(Cell(f"size alone moves both axes, {n} rewarders", partial(sized, n=n)) for n in (14, 30)),
    *(Cell(f"a ladder of {k} of one maker, {m} others", partial(ladder, own=k, others=m))
      for k, m in ((6, 8), (10, 7))),
)  # fmt: skip


def rates(cell: Cell, studies: int) -> dict[str, float]:
    """Return the share of each word, and of a yes at equal size."""
    counts = Counter[str]()
    for seed in range(studies):
        axes = cell.study(seed)
        counts[word_of(axes)] += 1
        if axes.covariates is not None and (adjusted := adjusted_of(axes)) is not None:
            counts["yes at equal size"] += adjusted.p_yes >= 0.95
    return {word: count / studies for word, count in counts.items()}


WORDS = ("yes", "probably", "perhaps", "no", "weak", "reverse")


def table(rows: list[tuple[Cell, dict[str, float]]]) -> list[str]:
    """Return lines of a table; errors are bold from .02 on, a wrong "probably" from .1 on."""
    lines = [f"| studies | {' | '.join(WORDS)} |", "| --- |" + " --- |" * len(WORDS)]
    for cell, found in rows:
        shares = [
            f"**{found.get(w, 0):.3f}**"
            if w in (*cell.errors, *(("probably",) if "yes" in cell.errors else ()))
            and found.get(w, 0) >= (0.1 if w == "probably" else 0.02)
            else f"{found.get(w, 0):.3f}"
            for w in WORDS
        ]
        extra = found.get("yes at equal size")
        name = cell.name if extra is None else f"{cell.name} (at equal size: {extra:.3f})"
        lines.append(f"| {name} | {' | '.join(shares)} |")
    return lines


def page(studies: int) -> list[str]:
    """Return lines for docs/measurements/validity.md."""
    lines = ["## The verdict", "", *(__doc__ or "").split("\n\n")[1].splitlines(), ""]
    with ProcessPoolExecutor(max(1, (os.cpu_count() or 2) // 2)) as pool:
        for title, cells in (
            ("What is found", POWER),
            ("Bent lines and heavy tails", BENT),
            ("Several policies", SEVERAL),
            ("Rewarders that cannot be told apart", NOISE),
            ("No line: every yes is an error", SHAPES),
        ):
            found = pool.map(rates, cells, [studies] * len(cells))
            lines += [f"**{title}**", "", *table(list(zip(cells, found, strict=True))), ""]
    return lines


if __name__ == "__main__":
    print("\n".join(page(int(sys.argv[1]) if sys.argv[1:] else STUDIES)))
