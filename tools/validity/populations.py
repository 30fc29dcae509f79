"""Gains from few questions, the gate at its threshold, and leaks that rewarders remember."""

import numpy as np
from numpy.typing import NDArray

from bon.analysis.correlation.axes import _too_leaked
from bon.analysis.estimators import resampling
from bon.analysis.estimators.resampling import draw, from_draws
from bon.analysis.results import Estimate
from bon.analysis.verdict.verdict import Axes, judge

Floats = NDArray[np.float64]

REWARDERS, SPREAD_X, DIFFICULTY = 14, 0.30, 1.0  # on the probit scale
PROMISE = (0.93, 0.97)


def remembered_leaks(share: float, questions: int, studies: int) -> dict[str, float | str]:
    """Return verdicts where rewarders remember leaked items and r = 0 among the others.

    A rewarder knows the answer to a share of the leaked questions and pairs, drawn uniformly, and
    has independent qualities on the others. `all items` takes no account of leaks.
    """
    rng = np.random.default_rng([questions, round(100 * share), 43])
    words: tuple[list[str], list[str]] = ([], [])
    values: list[tuple[float, float]] = []
    for _ in range(studies):
        memory, skill = rng.random(REWARDERS), rng.normal(size=(2, REWARDERS))
        right, leaked = [], []
        for quality, size in zip(skill, (round(1.2 * questions), questions), strict=True):
            out = np.arange(size) < round(share * size)
            items = answers(rng, quality * SPREAD_X, size) > 0
            right.append(items | (out[:, None] & (rng.random(items.shape) < memory)))
            leaked.append(out)
        pairs, choices = right
        r = []
        kept = [~out for out in leaked]
        for found, keep in zip(words, (kept, [np.ones_like(k) for k in kept]), strict=True):
            (x, on_x), (y, on_y) = (
                (part[k].mean(axis=0), np.cov(part[k].T) / k.sum())
                for part, k in zip((pairs, choices), keep, strict=True)
            )
            verdict = judge(Axes(tuple(map(str, range(REWARDERS))), x, y, on_x, on_y))
            few = bool(_too_leaked(*(~k for k in keep[::-1])))
            found.append("cannot tell" if few or verdict is None else verdict.word)
            r.append(float(resampling.pearson_rows(x, y)))
        values.append((r[0], r[1]))
    without, everything = np.median(values, axis=0)
    return {
        "leaked": f"{share:.0%}",
        "questions": float(questions),
        "r, all items": float(everything),
        "r without leaks": float(without),
        "Yes, all items": words[1].count("yes") / studies,
        "Yes": words[0].count("yes") / studies,
        "Perhaps": words[0].count("perhaps") / studies,
        "No": sum(words[0].count(w) for w in ("no", "weak", "reverse")) / studies,
        "cannot tell": words[0].count("cannot tell") / studies,
    }


def gate_errors(questions: int, share: float, studies: int) -> dict[str, float | str]:
    """Return how often `bon gate` says go or no-go at its threshold, gains being rare.

    The gain is .9 on a `share` of the questions and zero on the others.
    """
    rng = np.random.default_rng([questions, round(100 * share), 47])
    gain = np.where(rng.random((questions, studies)) < share, 0.9, 0.0)
    drawn, means = draw(questions, 1000, 0, "questions").means(gain), gain.mean(axis=0)
    row: dict[str, float | str] = {"questions": float(questions), "gain on": f"{share:g}"}
    for name, differing in (("percentile", None), ("printed", (gain > 0).sum(axis=0))):
        bounds = from_draws(
            means, drawn, questions, "q", 0.95, proportion=False, differing=differing
        )
        row[f"no-go, {name}"] = float(np.mean([(e.high or 0.0) < 0.9 * share for e in bounds]))
        row[f"go, {name}"] = float(np.mean([(e.low or 0.0) >= 0.9 * share for e in bounds]))
    return row


def gains(questions: int, skill: float, studies: int) -> dict[str, float | str]:
    """Return the coverage of the interval of a gain over pass@1 from this many questions.

    A rewarder of this skill (score = skill · right + noise) chooses among eight candidates of
    questions that are easy, hard or in between; `percentile` is the plain interval, `printed` the
    one that results hold.
    """
    rng = np.random.default_rng([questions, round(10 * skill), 31])
    truth = float(_gains(rng, 400_000, skill).mean())
    draws = draw(questions, 1000, 0, "questions")
    held = []
    for _ in range(studies):
        gain = _gains(rng, questions, skill)[:, None]
        means, drawn = gain.mean(axis=0), draws.means(gain)
        printed = from_draws(means, drawn, questions, "questions", 0.95, proportion=False)[0]
        low, high = resampling.quantiles(drawn, 0.95)
        held.append((low[0] <= truth <= high[0], _holds(printed, truth)))
    plain, widened = np.mean(held, axis=0)
    return {
        "questions": float(questions),
        "skill": f"{skill:g}",
        "true gain": truth,
        "percentile": float(plain),
        "printed": float(widened),
    }


def _gains(rng: np.random.Generator, size: int, skill: float) -> Floats:
    right = rng.random((size, 8)) < rng.beta(0.6, 0.6, size)[:, None]
    choice = (skill * right + rng.normal(size=right.shape)).argmax(axis=1)
    return np.asarray(right[np.arange(size), choice] - right.mean(axis=1))


def page(
    few: list[dict[str, float | str]],
    leaky: list[dict[str, float | str]],
    gates: list[dict[str, float | str]],
) -> list[str]:
    """Return lines for docs/measurements/validity.md."""
    return [
        "## Gains from few questions",
        "",
        "Best of eight over pass@1; `percentile` is the plain bootstrap, `printed` the expanded "
        "one that results hold below 100 questions.",
        "",
        *_table(few, ("percentile", "printed")),
        "",
        "`bon gate` at its threshold, where the gain is .9 on few questions and zero on the "
        "others: a decision is an error there, nominally in .025 each. Below ten such questions "
        "the printed interval allows for one more.",
        "",
        *_table(gates, ()),
        "",
        "## Remembered leaks",
        "",
        f"{REWARDERS} rewarders, each of which knows the answers to a share of the leaked "
        "questions and pairs (uniform in 0 to 1); r = 0 on the others. `all items` counts leaked "
        "ones.",
        "",
        *_table(leaky, ()),
        "",
    ]


def _table(rows: list[dict[str, float | str]], promised: tuple[str, ...]) -> list[str]:
    head = [name for name in rows[0] if name != "cannot tell"]
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    for row in rows:
        cells = []
        for name in head:
            value = row[name]
            text = value if isinstance(value, str) else f"{value:.3f}"
            if name == "questions":
                text = f"{value:.0f}"
            off = isinstance(value, float) and not PROMISE[0] <= value <= PROMISE[1]
            cells.append(f"**{text}**" if name in promised and off else text)
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def _holds(found: Estimate, truth: float) -> bool:
    assert found.low is not None
    assert found.high is not None
    return found.low <= truth <= found.high


def answers(rng: np.random.Generator, quality: Floats, size: int) -> NDArray[np.float32]:
    """Draw right or wrong answers (size, R) to questions of shared difficulty."""
    ease = rng.normal(size=(size, 1)) * DIFFICULTY
    noise = rng.normal(size=(size, len(quality)))
    return (quality + ease + noise > 0).astype(np.float32)
