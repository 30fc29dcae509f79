"""Intervals and verdicts for collections of rewarders that are not clean or not independent.

Whole studies of 14 rewarders with known truth, each through the same `correlate` and verdict as a
real run: some broken rewarders far below the others, few bases, only good rewarders, pairs that
come in clusters.
"""

import os
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import special

from bon.analysis.correlation.axes import _too_leaked
from bon.analysis.correlation.coefficients import correlate
from bon.analysis.correlation.paired_accuracies import Label, Measured
from bon.analysis.estimators import resampling
from bon.analysis.estimators.resampling import Draws, draw, draw_clusters, from_draws
from bon.analysis.finding.verdict import verdict
from bon.analysis.results import Estimate, Options

Floats = NDArray[np.float64]
Floats32 = NDArray[np.float32]

REWARDERS, QUESTIONS, PAIRS = 14, 500, 600
SPREAD_X, SPREAD_Y, DIFFICULTY = 0.30, 0.25, 1.0  # on the probit scale
FAR = 4.0  # standard deviations by which a broken rewarder is below the others
HALVES = 20
PROMISE = (0.93, 0.97)
FEWEST = 50
"""Minimal number of printed intervals for a coverage."""
OPTIONS = Options(draws=400, permutations=2000)
LABEL = Label("policy", "benchmark", "macro", primary=True)


@dataclass(frozen=True)
class Collection:
    """Rewarders and pairs of one kind. `r`: true, among those that are not broken."""

    name: str
    r: float = 0.85
    broken: int = 0
    bases: int = 0
    icc: float = 0.0
    restricted: bool = False
    cluster: int = 1
    pairs: int = PAIRS


COLLECTIONS = (
    Collection("independent, r = .85"),
    Collection("independent, r = 0", r=0.0),
    Collection("independent, r = .5", r=0.5),
    Collection("1 of 14 broken, r = 0 among the rest", r=0.0, broken=1),
    Collection("3 of 14 broken, r = 0 among the rest", r=0.0, broken=3),
    Collection("3 of 14 broken, r = .85 among the rest", broken=3),
    Collection("4 of 14 broken, r = 0 among the rest", r=0.0, broken=4),
    Collection("5 of 14 broken, r = 0 among the rest", r=0.0, broken=5),
    Collection("from 2 bases, icc .5", bases=2, icc=0.5),
    Collection("from 2 bases, icc .8", bases=2, icc=0.8),
    Collection("from 4 bases, icc .5", bases=4, icc=0.5),
    Collection("from 4 bases, icc .8", bases=4, icc=0.8),
    Collection("from 7 bases, icc .5", bases=7, icc=0.5),
    Collection("from 7 bases, icc .8", bases=7, icc=0.8),
    Collection("from 7 bases, icc .8, r = .5", r=0.5, bases=7, icc=0.8),
    Collection("from 7 bases, icc .8, r = 0", r=0.0, bases=7, icc=0.8),
    Collection("only the better half of all rewarders", restricted=True),
    Collection("pairs in 60 clusters of 10 alike", cluster=10),
    Collection("pairs in 20 clusters of 10 alike", cluster=10, pairs=200),
)


def row(c: Collection, studies: int) -> dict[str, float | str]:
    """Return one row of the table: coverage of printed intervals, and the verdicts."""
    true = _measured_r(c)
    parts = max(1, os.cpu_count() or 1)
    shares = [studies // parts + (k < studies % parts) for k in range(parts)]
    with ProcessPoolExecutor(parts) as pool:
        parts_done = list(pool.map(_some, [c] * parts, shares, range(parts), [true] * parts))
    covers = [c for part in parts_done for c in part[0]]
    accuracy = [c for part in parts_done for c in part[1]]
    verdicts = sum((part[2] for part in parts_done), Counter[str]())
    return {
        "collection": c.name,
        "measured r": true,
        "interval of r printed": len(covers) / studies,
        "covers r": float(np.mean(covers)) if len(covers) >= FEWEST else "–",
        "covers accuracy": float(np.mean(accuracy)),
        "Yes": verdicts["predicts"] / studies,
        "Perhaps": verdicts["weak"] / studies,
        "No": verdicts["does not predict"] / studies,
        "cannot tell": verdicts["cannot tell"] / studies,
    }


def remembered_leaks(share: float, questions: int, studies: int) -> dict[str, float | str]:
    """Return verdicts where rewarders remember leaked items and r = 0 among the others.

    A rewarder knows the answer to a share of the leaked questions and pairs, drawn uniformly, and
    has independent qualities on the others. `all items` takes no account of leaks.
    """
    rng = np.random.default_rng([questions, round(100 * share), 43])
    counts = Counter[str](), Counter[str]()
    values: list[tuple[float, float]] = []
    for _ in range(studies):
        memory, skill = rng.random(REWARDERS), _pair(rng, 0.0, REWARDERS)
        right, leaked = [], []
        for quality, size in zip(skill, (round(1.2 * questions), questions), strict=True):
            out = np.arange(size) < round(share * size)
            items = _answers(rng, quality * SPREAD_X, size, 1) > 0
            right.append(items | (out[:, None] & (rng.random(items.shape) < memory)))
            leaked.append(out)
        results = []
        for count, keep in zip(counts, (leaked, [np.zeros_like(x) for x in leaked]), strict=True):
            x, y = (r[~out].mean(axis=0) for r, out in zip(right, keep, strict=True))
            names = tuple(map(str, range(REWARDERS)))
            none = (Estimate(value=0.0),) * REWARDERS
            label = replace(LABEL, too_leaked=_too_leaked(keep[1], keep[0]))
            c = correlate(Measured(names, x, y, none, none, families=names), label, OPTIONS)
            count[verdict(c)] += 1
            results.append(c.pearson.estimate.value or 0.0)
        values.append((results[0], results[1]))
    without, everything = np.median(values, axis=0)
    return {
        "leaked": f"{share:.0%}",
        "questions": float(questions),
        "r, all items": float(everything),
        "r without leaks": float(without),
        "Yes, all items": counts[1]["predicts"] / studies,
        "Yes": counts[0]["predicts"] / studies,
        "Perhaps": counts[0]["weak"] / studies,
        "No": counts[0]["does not predict"] / studies,
        "cannot tell": counts[0]["cannot tell"] / studies,
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
    rows: list[dict[str, float | str]],
    few: list[dict[str, float | str]],
    leaky: list[dict[str, float | str]],
    gates: list[dict[str, float | str]],
) -> list[str]:
    """Return lines for docs/validity.md."""
    return [
        "## Collections that are not clean",
        "",
        f"{REWARDERS} rewarders, {QUESTIONS} questions, {PAIRS} pairs unless it says otherwise. "
        f"Broken: {FAR:g} standard deviations below the mean on both axes. Bases: rewarders of one "
        "base share part of their quality (icc, the intraclass correlation). `covers r`: of the "
        "intervals that are printed, against the r that very many such rewarders show; of fewer "
        f"than {FEWEST} it is not said. `covers accuracy`: of one rewarder on the pairs. The rest "
        "are shares of verdicts; the other studies cannot tell.",
        "",
        *_table(rows, ("covers r", "covers accuracy")),
        "",
        "Where the evidence for groups is strong no interval of r is printed; printed, it would "
        "cover up to 1.00 of collections with as many such rewarders. A yes says r > .5, so "
        "at a true r of .5 it should come in 2.5 of 100 or fewer. One standard error of a coverage "
        "is about .011 here, more of an accuracy, as studies share draws by fifties; over 4,000 "
        "studies the accuracy on clusters of pairs is covered .945 (60 clusters) and .944 (20).",
        "",
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


def _some(
    c: Collection, studies: int, part: int, true: float
) -> tuple[list[bool], list[bool], Counter[str]]:
    rng = np.random.default_rng([part, len(c.name), c.broken, c.bases, 29])
    covers: list[bool] = []
    accuracy: list[bool] = []
    verdicts: Counter[str] = Counter()
    for k in range(studies):
        if k % 50 == 0:  # studies that share their draws
            on_q = draw(QUESTIONS, OPTIONS.draws, part * 1000 + k, "questions")
            on_p = _pair_draws(c, part * 1000 + k)
        m, right, truth = _study(rng, c, on_q, on_p)
        correlation = correlate(m, LABEL, OPTIONS)
        verdicts[verdict(correlation)] += 1
        r = correlation.pearson.estimate
        if r.low is not None and r.high is not None:
            covers.append(r.low <= true <= r.high)
        drawn, units = on_p.means(right), c.pairs // c.cluster
        one = from_draws(m.x[:1], drawn, c.pairs, "pairs", OPTIONS.level, units=units)[0]
        accuracy.append(_holds(one, truth))
    return covers, accuracy, verdicts


def _holds(correlation: Estimate, truth: float) -> bool:
    assert correlation.low is not None
    assert correlation.high is not None
    return correlation.low <= truth <= correlation.high


def _study(
    rng: np.random.Generator, c: Collection, on_q: Draws, on_p: Draws
) -> tuple[Measured, Floats32, float]:
    """A study, how its first rewarder does on pairs (P, 1), and its true accuracy on them."""
    x, y, base = _qualities(rng, c, REWARDERS)
    xs, ys = _answers(rng, x, c.pairs, c.cluster), _answers(rng, y, QUESTIONS, 1)
    none = (Estimate(value=0.0),) * REWARDERS
    measured = Measured(
        tuple(map(str, range(REWARDERS))),
        xs.mean(axis=0, dtype=float),
        ys.mean(axis=0, dtype=float),
        none,
        none,
        on_p.means(xs),
        on_q.means(ys),
        _halves(rng, xs, c.cluster),
        _halves(rng, ys, 1),
        families=tuple(base),
    )
    return measured, xs[:, :1], float(_true_accuracy(x[:1])[0])


def _qualities(rng: np.random.Generator, c: Collection, r: int) -> tuple[Floats, Floats, list[str]]:
    """Probit qualities on both axes, and the base of each rewarder."""
    x, y = _pair(rng, c.r, r)
    base = [f"own-{k}" for k in range(r)]
    if c.restricted:
        x, y = (np.concatenate(axis)[:r] for axis in zip(*_better(rng, c.r, r), strict=True))
    if c.bases:
        of = np.arange(r) % c.bases
        shared_x, shared_y = _pair(rng, c.r, c.bases)
        x = np.sqrt(c.icc) * shared_x[of] + np.sqrt(1 - c.icc) * x
        y = np.sqrt(c.icc) * shared_y[of] + np.sqrt(1 - c.icc) * y
        base = [f"base-{k}" for k in of]
    few = round(c.broken * r / REWARDERS)
    x[r - few :] = y[r - few :] = -FAR
    scale = np.sqrt(1 + DIFFICULTY**2)
    return x * SPREAD_X * scale, y * SPREAD_Y * scale, base


def _pair(rng: np.random.Generator, rho: float, size: int) -> tuple[Floats, Floats]:
    x = rng.normal(size=size)
    return x, rho * x + np.sqrt(1 - rho**2) * rng.normal(size=size)


def _better(rng: np.random.Generator, rho: float, size: int) -> list[tuple[Floats, Floats]]:
    """Twice: rewarders whose benchmark quality is above the middle of their population."""
    found = []
    for _ in range(8):
        x, y = _pair(rng, rho, size)
        found.append((x[x > 0], y[x > 0]))
    return found


def _true_accuracy(quality: Floats) -> Floats:
    return np.asarray(special.ndtr(quality / np.sqrt(1 + DIFFICULTY**2)))


def _answers(rng: np.random.Generator, quality: Floats, size: int, alike: int) -> Floats32:
    """(size, R) right or wrong, `alike` in a row the same."""
    distinct = size // alike
    ease = rng.normal(size=(distinct, 1)) * DIFFICULTY
    right = quality + ease + rng.normal(size=(distinct, len(quality))) > 0
    return np.repeat(right.astype(np.float32), alike, axis=0)


def _pair_draws(c: Collection, seed: int) -> Draws:
    clusters = np.arange(c.pairs) // c.cluster
    return draw_clusters(clusters, np.zeros_like(clusters), OPTIONS.draws, seed, "pairs")


def _halves(rng: np.random.Generator, values: Floats32, alike: int) -> Floats:
    """(2, R, S): accuracies on random halves that share no cluster, and on their complements."""
    size = len(values) // alike
    half = np.repeat(np.argsort(rng.random((HALVES, size)), axis=1) < size // 2, alike, axis=1)
    parts = [Draws(side.astype(np.float32)).means(values).astype(float) for side in (half, ~half)]
    return np.stack(parts)


def _measured_r(c: Collection) -> float:
    """What very many rewarders of such a collection show on benchmarks of this size."""
    rng = np.random.default_rng(5)
    many = replace(c, bases=700 if c.bases else 0)
    found = []
    for _ in range(12):
        x, y, _ = _qualities(rng, many, 2100)
        on_pairs = _answers(rng, x, c.pairs, c.cluster).mean(axis=0)
        on_questions = _answers(rng, y, QUESTIONS, 1).mean(axis=0)
        found.append(float(resampling.pearson_rows(on_pairs, on_questions)))
    return float(np.mean(found))
