"""Results on a reward benchmark: overall, macro, groups, tags, and what may bias them."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bon.analysis.data.verdicts import (
    NOT_ASKED,
    RIGHT,
    WRONG,
    Verdicts,
    code_chances,
    number_of_votes,
    official_code,
)
from bon.analysis.estimators import resampling
from bon.analysis.estimators.pair_sets import Axis, PairSet, Worth, axes, ratio, worth_of, worths
from bon.analysis.estimators.resampling import estimate, from_draws, nothing, wilson
from bon.analysis.results import (
    BenchmarkResult,
    Estimate,
    Options,
    OutcomeRate,
    Slice,
    Treatment,
    TreatmentResult,
    VotesPoint,
)

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


def agrees_with_groups(overall: float, groups: Sequence[tuple[float, float]], slack: float) -> bool:
    """Whether an overall accuracy follows from (accuracy, size) of its groups."""
    size = sum(n for _, n in groups)
    return size == 0 or abs(sum(a * n for a, n in groups) / size - overall) <= slack


def benchmark_results(
    pairs: PairSet, said: dict[str, Verdicts], options: Options
) -> list[BenchmarkResult]:
    """One result a rewarder, in the order of `said` (codes over the rows of this set)."""
    names = list(said)
    codes = np.stack([said[name].code for name in names], axis=1)
    worth = worth_of(codes, "headline", options)
    everything = axes(pairs, worth)
    some = pairs.leaked.any() and not pairs.leaked.all()
    kept = axes(pairs, worth, ~pairs.leaked) if some else None
    treatments: tuple[Treatment, ...] = ("drop", "wrong", "chance", "official")
    treated = {t: _treated(pairs, said, t, options, worth, everything) for t in treatments}
    tagged = _tags(pairs, worth, codes, options)
    consistent, position, each = _by_judgement(pairs, list(said.values()), options)
    longer, length = _length_biases(pairs, codes, worth, options)
    best = _best_of_k(pairs, codes, options)
    results = []
    for r, name in enumerate(names):
        asked = codes[:, r] != NOT_ASKED
        if not asked.any():
            continue

        def read(
            found: dict[str, Axis], axis: str, r: int = r, n: int = int(asked.sum())
        ) -> Estimate:
            return _estimate(found[axis], r, n, options)

        groups = _slices(pairs, everything, r, asked, options)
        implied = [(s.accuracy.value or 0.0, s.accuracy.n) for s in groups if s.accuracy.n]
        size = sum(n for _, n in implied)
        from_groups = sum(a * n for a, n in implied) / size if size else None
        overall = read(everything, "overall")
        results.append(
            BenchmarkResult(
                benchmark=pairs.name,
                rewarder=name,
                num_pairs=int(asked.sum()),
                overall=overall,
                macro=read(everything, "macro"),
                natural=read(everything, "natural") if pairs.weight is not None else None,
                overall_without_leaks=read(kept, "overall") if kept else None,
                macro_without_leaks=read(kept, "macro") if kept else None,
                groups=groups,
                groups_without_leaks=_slices(
                    pairs, kept, r, asked & ~pairs.leaked, options
                ) if kept else (),
                tags=tagged[r],
                overall_from_groups=from_groups,
                acc_plus=_acc_plus(pairs, codes[:, r], options),
                best_of_k=best[r],
                per_judgement=each[r],
                overall_agrees=agrees_with_groups(overall.value or 0.0, implied, 0.003),
                votes=_votes(pairs, said[name], asked, options, overall, read(everything, "macro")),
                outcomes=_rates(said[name].outcomes, options.level),
                sensitivity=(
                    TreatmentResult(
                        treatment="headline",
                        overall=overall,
                        macro=read(everything, "macro"),
                        num_dropped=int((asked & (worth.den[:, r] == 0)).sum()),
                    ),
                    *(
                        TreatmentResult(
                            treatment=treatment,
                            overall=read(found, "overall"),
                            macro=read(found, "macro"),
                            num_dropped=int(dropped[r]),
                        )
                        for treatment, (found, dropped) in treated.items()
                    ),
                )
                if said[name].outcomes
                else (),
                consistency=consistent[r],
                position_bias=position[r],
                picks_longer=longer[r],
                length_bias=length[r],
            )
        )  # fmt: skip
    return results


def _acc_plus(pairs: PairSet, codes: Ints, options: Options) -> Estimate | None:
    """Share of clusters that were asked about whole and have every pair right; ties are wrong."""
    if not pairs.clustered:
        return None
    whole = np.bincount(pairs.cluster, weights=codes == NOT_ASKED) == 0
    right = np.bincount(pairs.cluster, weights=codes != RIGHT) == 0
    return wilson(float((whole & right).sum()), int(whole.sum()), options.level)


def _best_of_k(pairs: PairSet, codes: Ints, options: Options) -> list[Estimate | None]:
    """Share of sets whose better response beats each of the worse ones; ties are losses.

    Sets that a rewarder was not asked about whole are left out of its share.
    """
    if pairs.sets is None or (pairs.sets < 0).all():
        return [None] * codes.shape[1]
    rows = np.flatnonzero(pairs.sets >= 0)
    first = np.unique(pairs.sets[rows], return_index=True)[1]
    whole, won = np.zeros(codes.shape), np.zeros(codes.shape)
    for r, code in enumerate(codes[rows].T):
        asked = np.bincount(pairs.sets[rows], weights=code == NOT_ASKED) == 0
        whole[rows[first], r] = asked
        won[rows[first], r] = asked & (np.bincount(pairs.sets[rows], weights=code != RIGHT) == 0)
    return _ratios(pairs, won, whole, options)


def _estimate(axis: Axis, r: int, n: int, options: Options) -> Estimate:
    found = from_draws(
        axis.values[[r]], axis.draws[[r]], n, "pairs", options.level, units=axis.units
    )
    return found[0]


def _treated(
    pairs: PairSet,
    said: dict[str, Verdicts],
    treatment: Treatment,
    options: Options,
    headline: Worth,
    found: dict[str, Axis],
) -> tuple[dict[str, Axis], Ints]:
    """The axes under another treatment, and how many pairs it drops; mostly those `found`."""
    codes = np.stack(
        [
            official_code(v.counts) if treatment == "official" and v.counts is not None else v.code
            for v in said.values()
        ],
        axis=1,
    )
    worth = worth_of(codes, treatment, options)
    dropped = ((codes != NOT_ASKED) & (worth.den == 0)).sum(axis=0)
    same = np.array_equal(worth.num, headline.num) and np.array_equal(worth.den, headline.den)
    return found if same else axes(pairs, worth), dropped


def _slices(
    pairs: PairSet, found: dict[str, Axis] | None, r: int, asked: Bools, options: Options
) -> tuple[Slice, ...]:
    if found is None:
        return ()
    made = []
    for g, name in enumerate(pairs.groups):
        axis = found.get(f"group:{name}")
        if axis is not None:
            n = int((asked & (pairs.group == g)).sum())
            made.append(Slice(name=name, accuracy=_estimate(axis, r, n, options)))
    return tuple(made)


def _tags(pairs: PairSet, worth: Worth, codes: Ints, options: Options) -> list[tuple[Slice, ...]]:
    """Accuracy of every rewarder within every tag."""
    tags = pairs.frame["tag"].fillna("").astype(str).to_numpy()
    made: list[list[Slice]] = [[] for _ in codes.T]
    for tag in sorted(set(tags) - {""}):
        inside = np.asarray(tags == tag, dtype=bool)
        axis = ratio(pairs, worth, inside)
        counts = (codes[inside] != NOT_ASKED).sum(axis=0)
        for r, count in enumerate(counts.tolist()):
            if count:
                made[r].append(Slice(name=tag, accuracy=_estimate(axis, r, count, options)))
    return [tuple(slices) for slices in made]


def _rates(outcomes: dict[str, int], level: float) -> tuple[OutcomeRate, ...]:
    total = sum(outcomes.values())
    return tuple(
        OutcomeRate(outcome=o, count=k, rate=wilson(k, total, level, "judgements"))
        for o, k in outcomes.items()
    )


def _votes(
    pairs: PairSet,
    said: Verdicts,
    asked: Bools,
    options: Options,
    overall: Estimate,
    macro: Estimate,
) -> tuple[VotesPoint, ...]:
    """Accuracy against the number of votes; all of them is the headline."""
    if said.counts is None and said.scores is None:
        return ()
    num, den = worths("headline", options)
    made = []
    most = number_of_votes(said)
    for k in range(1, most):
        chance = code_chances(said, pairs.preferred, k, options.seed)
        worth = Worth(
            np.where(asked, chance @ (num * den), 0.0)[:, None],
            np.where(asked, chance @ den, 0.0)[:, None],
        )
        found = axes(pairs, worth)
        n = int(asked.sum())
        made.append(
            VotesPoint(
                k=k,
                overall=_estimate(found["overall"], 0, n, options),
                macro=_estimate(found["macro"], 0, n, options),
            )
        )
    return (*made, VotesPoint(k=most, overall=overall, macro=macro))


def _by_judgement(
    pairs: PairSet, said: list[Verdicts], options: Options
) -> tuple[list[Estimate | None], list[Estimate | None], list[Estimate | None]]:
    """What is counted in judgements, not in pairs, of rewarders that compare.

    Consistency in both orders, signed position bias, and the share of right verdicts.
    """
    zero = np.zeros(len(pairs.preferred))
    columns: list[list[Floats]] = [[], [], [], [], [], []]
    for v in said:
        if v.counts is None:
            for column in columns:
                column.append(zero)
            continue
        counts = v.counts
        both = (counts[:, :, :3].sum(axis=2) > 0).all(axis=1)
        lean = np.sign(counts[:, :, 0] - counts[:, :, 1])
        columns[0].append((both & (lean[:, 0] == lean[:, 1])).astype(float))
        columns[1].append(both.astype(float))
        # side o shown first: its votes are column 0 where o is the better side, else column 1
        shown_first = np.where(
            pairs.preferred[:, None] == np.arange(2), counts[:, :, 0], counts[:, :, 1]
        ).sum(axis=1)
        made = counts[:, :, :2].sum(axis=(1, 2))
        columns[2].append(2.0 * shown_first - made)
        columns[3].append(made.astype(float))
        columns[4].append(counts[:, :, 0].sum(axis=1).astype(float))
        columns[5].append(counts[:, :, :3].sum(axis=(1, 2)).astype(float))
    same, both_made, lean_first, made_all, right, read = (
        np.stack(column, axis=1) for column in columns
    )
    consistency = _ratios(pairs, same, both_made, options)
    position = _ratios(pairs, lean_first, made_all, options)
    return consistency, position, _ratios(pairs, right, read, options)


def _ratios(pairs: PairSet, num: Floats, den: Floats, options: Options) -> list[Estimate | None]:
    """Ratio estimates of columns (P, R); None where there is nothing to divide by."""
    known = np.flatnonzero(den.sum(axis=0) > 0)
    result: list[Estimate | None] = [None] * num.shape[1]
    if not len(known):
        return result
    everything = np.ones(len(num), dtype=bool)
    axis = ratio(pairs, Worth(num[:, known], den[:, known]), everything)
    for k, r in enumerate(known.tolist()):
        result[r] = _estimate(axis, k, int((den[:, r] > 0).sum()), options)
    return result


def _length_biases(
    pairs: PairSet, codes: Ints, worth: Worth, options: Options
) -> tuple[list[Estimate | None], list[Estimate | None]]:
    """How often the longer response is chosen, and how far accuracy depends on that."""
    lengths = pairs.frame[["length_0", "length_1"]].to_numpy(dtype=float)
    rows = np.arange(len(lengths))
    gap = lengths[rows, pairs.preferred] - lengths[rows, 1 - pairs.preferred]
    known = np.isfinite(gap) & (gap != 0)
    decided = np.isin(codes, (RIGHT, WRONG)) & known[:, None]
    chose_longer = decided & ((codes == RIGHT) == (gap > 0)[:, None])
    picks = _ratios(pairs, chose_longer.astype(float), decided.astype(float), options)
    longer, shorter = known & (gap > 0), known & (gap < 0)
    if not longer.any() or not shorter.any():
        return picks, [None] * codes.shape[1]
    a, b = ratio(pairs, worth, longer), ratio(pairs, worth, shorter)
    values = a.values - b.values
    n = int(known.sum())
    low, high = resampling.quantiles(a.draws - b.draws, options.level, min(n, a.units + b.units))
    return picks, [
        estimate(values[r], low[r], high[r], n, "pairs") if np.isfinite(values[r]) else nothing()
        for r in range(codes.shape[1])
    ]
