"""Coverage of the intervals: `python -m tools.validity.coverage [--quick]`.

Share of simulated studies of known truth whose 95% intervals, from the functions of the analysis,
cover it: the true accuracies of rewarders on the two axes have correlation .85, and all rewarders
share questions and pairs of different difficulty. Rewarders come from a normal population, or from
a lopsided one: many weak ones close together and a tail of strong ones.

The *measured* r is the one that very many rewarders would show on benchmarks of this size: noise in
both axes lowers it. The *true* r is that of the accuracies themselves; only the posterior of the
verdict aims at it.
"""

import argparse
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy import special

from bon.analysis.correlation.coefficients import coefficient
from bon.analysis.correlation.paired_accuracies import Measured, difference_errors
from bon.analysis.estimators import resampling
from bon.analysis.estimators.resampling import draw, from_draws
from bon.analysis.results import Estimate, Options
from bon.analysis.verdict.of_axes import axes_of
from bon.analysis.verdict.verdict import judge
from tools.validity import populations, verdict_calibration, verdict_rates
from tools.validity.populations import DIFFICULTY, PROMISE, SPREAD_X, answers

Floats = NDArray[np.float64]

Population = Literal["normal", "lopsided"]

REWARDERS = (6, 10, 16, 50)
QUESTIONS = (200, 1730)
TRUE_R = 0.85
SPREAD_Y = 0.25  # on the probit scale
POPULATIONS: tuple[Population, ...] = ("normal", "lopsided")
FEW_QUESTIONS, SKILLS = (20, 50, 100), (0.3, 1.5, 3.0)
LEAKED, LEAK_SIZES, LEAK_STUDIES = (0.5, 0.6, 0.88), (500, 120), 100
RARE = (0.03, 0.07, 0.15)
BLOCK = 50  # studies that share their bootstrap draws


def main() -> None:
    """Write the tables of docs/measurements/validity.md without its prose; --quick prints them."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="few studies, nothing written")
    parser.add_argument("--studies", type=int, default=1000)
    parser.add_argument("--out", type=Path, default=Path("build/validity.md"))
    arguments = parser.parse_args()
    studies = 40 if arguments.quick else arguments.studies
    rows = []
    for population in POPULATIONS[:1] if arguments.quick else POPULATIONS:
        for q in QUESTIONS[:1] if arguments.quick else QUESTIONS:
            for r in REWARDERS:
                rows.append(coverage(r, q, studies, population))
                print(f"{population}, {r} rewarders, {q} questions: {rows[-1]}", flush=True)
    few = [populations.gains(q, s, 4 * studies) for q in FEW_QUESTIONS for s in SKILLS]
    leaks = 12 if arguments.quick else LEAK_STUDIES
    leaky = [populations.remembered_leaks(s, q, leaks) for q in LEAK_SIZES for s in LEAKED]
    gates = [populations.gate_errors(q, s, studies) for q in (30, 100) for s in RARE]
    more = verdict_rates.page(20 if arguments.quick else verdict_rates.STUDIES)
    errors = verdict_calibration.Errors.simulated()
    more += verdict_calibration.page(errors, 40 if arguments.quick else verdict_calibration.STUDIES)
    more += populations.page(few, leaky, gates)
    text = "\n".join((page(rows, studies, sum(os.times()[:4])), *more))
    if arguments.quick:
        print(text)
    else:
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.write_text(text, encoding="utf-8")


# ------------------------------------------------------------------ a simulated study


def true_qualities(
    rng: np.random.Generator, r: int, population: Population
) -> tuple[Floats, Floats]:
    """Draw probit qualities of r rewarders on the benchmark and on Best-of-N."""
    x = rng.normal(size=r) if population == "normal" else rng.exponential(size=r) - 1
    y = TRUE_R * x + np.sqrt(1 - TRUE_R**2) * rng.normal(size=r)
    scale = np.sqrt(1 + DIFFICULTY**2)
    return x * SPREAD_X * scale, y * SPREAD_Y * scale


def true_accuracy(quality: Floats) -> Floats:
    """Return the expected accuracy over all possible questions."""
    return np.asarray(special.ndtr(quality / np.sqrt(1 + DIFFICULTY**2)))


def truths(q: int, p: int, population: Population) -> tuple[float, float]:
    """Return the true r, and the r of very many rewarders on q questions and p pairs."""
    rng = np.random.default_rng(5)
    x, y = true_qualities(rng, 400_000, population)
    true = float(resampling.pearson_rows(true_accuracy(x), true_accuracy(y)))
    measured_r = []
    for _ in range(12):
        x, y = true_qualities(rng, 2000, population)
        r = resampling.pearson_rows(answers(rng, x, p).mean(0), answers(rng, y, q).mean(0))
        measured_r.append(float(r))
    return true, float(np.mean(measured_r))


def _studies(
    r: int, q: int, p: int, studies: int, options: Options, population: Population
) -> Iterator[tuple[Measured, Floats]]:
    """Simulate studies with the true Best-of-N accuracies of their rewarders."""
    rng = np.random.default_rng([r, q, 3])
    none = Estimate(value=0.0)
    for k in range(studies):
        if k % BLOCK == 0:
            on_q = draw(q, options.draws, k, "questions")
            on_p = draw(p, options.draws, k, "pairs")
        x, y = true_qualities(rng, r, population)
        xs, ys = answers(rng, x, p), answers(rng, y, q)
        measured = Measured(
            tuple(map(str, range(r))),
            xs.mean(axis=0, dtype=float),
            ys.mean(axis=0, dtype=float),
            (none,) * r,
            (none,) * r,
            on_p.means(xs),
            on_q.means(ys),
        )
        yield measured, true_accuracy(y)


# ------------------------------------------------------------------ coverage


def coverage(
    r: int, q: int, studies: int, population: Population = "normal"
) -> dict[str, float | str]:
    """Return the share of studies whose intervals cover the truth, for every interval."""
    p = max(200, round(q * 1250 / 1730))
    true, measured_r = truths(q, p, population)
    options = Options(draws=500)
    covered: dict[str, list[bool]] = {}
    widths: dict[str, list[float]] = {}

    def count(name: str, estimate: Estimate | None, truth: float) -> None:
        if estimate is None or estimate.low is None or estimate.high is None:
            return
        covered.setdefault(name, []).append(estimate.low <= truth <= estimate.high)
        widths.setdefault(name, []).append(estimate.high - estimate.low)

    for m, accuracy in _studies(r, q, p, studies, options, population):
        assert m.y_draws is not None
        one = from_draws(m.y[:1], m.y_draws[:1], q, "questions", options.level)[0]
        count("accuracy", one, float(accuracy[0]))
        error = float(difference_errors(m.y_draws[:2])[0, 1])
        gap = float(m.y[0] - m.y[1])
        count(
            "difference",
            Estimate(value=gap, low=gap - 1.96 * error, high=gap + 1.96 * error),
            float(accuracy[0] - accuracy[1]),
        )
        value = float(resampling.pearson_rows(m.x, m.y))
        z, error = resampling.jackknife(m.x, m.y, np.arange(r))
        half = special.stdtrit(r - 1, (1 + options.level) / 2) * error
        low, high = np.tanh([z - half, z + half])
        count("Fisher", resampling.fisher(value, r, options.level), measured_r)
        count("jackknife", Estimate(value=value, low=low, high=high), measured_r)
        count("read", coefficient(m, "pearson", options.level).estimate, measured_r)
        verdict = judge(axes_of(m))
        count("posterior, true r", verdict.r if verdict else None, true)
    row = {name: float(np.mean(h)) for name, h in covered.items()}
    return {
        "population": population,
        "rewarders": r,
        "questions": q,
        "true r": true,
        "measured r": measured_r,
        **row,
        "width": float(np.median(widths["read"])),
    }


# ------------------------------------------------------------------ the page


def page(rows: list[dict[str, float | str]], studies: int, seconds: float) -> str:
    """Write docs/measurements/validity.md; `seconds` of processor time."""
    head = list(rows[0])
    promised = head[head.index("accuracy") : head.index("width")]
    lines = [
        "# Do the intervals hold?",
        "",
        *(__doc__ or "").strip().split("\n\n", 1)[1].splitlines(),
        "",
        f"`make validity`: {studies} studies per row, {seconds / 60:.0f} minutes of processor "
        f"time; one standard error of a coverage of .95 is {np.sqrt(0.95 * 0.05 / studies):.3f}.",
        "",
        "| " + " | ".join(head) + " |",
        "|" + " --- |" * len(head),
    ]
    for row in rows:
        cells = []
        for name in head:
            value = row[name]
            text = f"{value:.3f}" if isinstance(value, float) else str(value)
            off = isinstance(value, float) and not PROMISE[0] <= value <= PROMISE[1]
            cells.append(f"**{text}**" if name in promised and off else text)
        lines.append("| " + " | ".join(cells) + " |")
    lines += [
        "",
        "`accuracy`: Best-of-N accuracy of one rewarder, questions resampled. `difference`: of "
        "two, paired. `Fisher` and `jackknife` (over rewarders, Student's t on Fisher's scale): of "
        "Pearson's r against the measured r. `read`: the one that reports show, Fisher's below 8 "
        "rewarders and the jackknife's from there on. "
        "`posterior, true r`: the interval of the verdict. `width`: median width of `read`. "
        "**Bold**: outside 93 to 97 in 100.",
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
