"""The pairs of a reward benchmark and accuracies over them.

Overall (micro) is the mean over pairs, macro the mean over groups, or the F1 of step labels. For
pairs drawn from a larger pool with known probabilities, `natural` is the accuracy on that pool
(Hájek's ratio of weighted sums). Pairs are resampled within their group, together with pairs of the
same cluster, or else of the same id, which share a question. `Options.ties` and `Options.unparsed`
treat undecided pairs.
"""

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from bon.analysis.data.arrays import Run
from bon.analysis.data.verdicts import (
    NOT_ASKED,
    RIGHT,
    TIE,
    UNDECIDED,
    WRONG,
    Verdicts,
    code_of,
    verdicts,
)
from bon.analysis.estimators import resampling
from bon.analysis.estimators.resampling import Draws, Floats32
from bon.analysis.results import Options
from bon.choosing.opinion import Bools, Floats, Ints

MIN_GROUP = 5  # groups with fewer pairs have no axis of their own


@dataclass(frozen=True)
class PairSet:
    """The pairs of one benchmark; `rows`: their rows in the table of all pairs."""

    name: str
    frame: pd.DataFrame
    rows: Ints
    preferred: Ints
    group: Ints
    groups: tuple[str, ...]
    draws: Draws
    cluster: Ints
    clustered: bool = False  # the benchmark defines the clusters
    weight: Floats | None = None  # number of pool pairs that each represents
    sets: Ints | None = None  # set of each pair with one better response; -1: none
    f1: str = ""  # see PAIR_EXTRAS

    @property
    def leaked(self) -> Bools:
        """Pairs that are also downstream questions (P)."""
        return np.asarray(self.frame["leaked"].fillna(False), dtype=bool)


@dataclass(frozen=True)
class Axis:
    """Accuracy of R rewarders with draws (R, B); `units`: number of resampled clusters."""

    values: Floats
    draws: Floats32
    units: int


@dataclass(frozen=True)
class Worth:
    """Weights of each pair for each rewarder: sums of `num` over sums of `den` (P, R)."""

    num: Floats
    den: Floats


def pair_sets(run: Run, options: Options) -> list[PairSet]:
    """Return the pairs of each benchmark of the run, with bootstrap draws."""
    sets = []
    table = run.tables.pairs.reset_index(drop=True)
    for name, frame in table.groupby("benchmark", sort=False, observed=True):
        group, groups = pd.factorize(frame["group"].fillna("").astype(str), sort=True)
        ids, clustered = frame["id"].astype(str), False
        if "cluster" in frame:
            names = frame["cluster"].fillna("").astype(str)
            ids, clustered = ids.where(names == "", "\0" + names), bool((names != "").all())
        cluster = pd.factorize(ids)[0].astype(np.int64)
        draws = resampling.draw_clusters(cluster, group, options.draws, options.seed, str(name))
        sets.append(
            PairSet(
                str(name),
                frame.reset_index(drop=True),
                frame.index.to_numpy(dtype=np.int64),
                frame["preferred"].to_numpy(dtype=np.int64),
                group.astype(np.int64),
                tuple(str(g) for g in groups),
                draws,
                cluster,
                clustered,
                frame["weight"].to_numpy(dtype=float) if "weight" in frame else None,
                _sets(frame) if "set" in frame else None,
                str(frame["f1"].iloc[0]) if "f1" in frame else "",
            )
        )
    return sets


def _sets(frame: pd.DataFrame) -> Ints:
    """Return the set of every pair; -1 for none, or a set of one."""
    names = frame["set"].fillna("").astype(str)
    alone = (names == "") | (names.map(names.value_counts()) == 1)
    return np.asarray(pd.factorize(names.where(~alone))[0], dtype=np.int64)


def all_verdicts(run: Run, pairs: PairSet) -> dict[str, Verdicts]:
    """Return the verdicts on these pairs of every rewarder that judged any of them."""
    place = np.full(len(run.tables.pairs), -1)
    place[pairs.rows] = np.arange(len(pairs.rows))
    by_rewarder = {}
    for rewarder in run.rewarders:
        judged = run.pairs[rewarder]
        rows = np.flatnonzero(place[judged.item] >= 0)
        if len(rows):
            part = judged.take(rows)
            part = replace(part, item=place[part.item])
            by_rewarder[rewarder] = verdicts(part, pairs.preferred, alone=bool(pairs.f1))
    return by_rewarder


def ensemble_verdicts(members: list[Verdicts]) -> Verdicts:
    """Return the majority of the decided members."""
    codes = np.stack([m.code for m in members])
    kinds = (RIGHT, WRONG, TIE, UNDECIDED)
    counts = np.stack([(codes == kind).sum(axis=0) for kind in kinds], axis=1)
    unasked = (codes == NOT_ASKED).any(axis=0)
    return Verdicts(np.where(unasked, NOT_ASKED, code_of(counts)), None, {})


def baseline_verdicts(frame: pd.DataFrame, name: str) -> Verdicts:
    """Return the verdicts of `longest` or `random`."""
    if name == "random":
        return Verdicts(np.full(len(frame), TIE), None, {})
    gap = length_gap(frame)
    code = np.select([gap > 0, gap < 0, gap == 0], [RIGHT, WRONG, TIE], UNDECIDED)
    return Verdicts(code, None, {})


def length_gap(frame: pd.DataFrame) -> Floats:
    """Length of the better response minus that of the other (P); NaN where unknown."""
    lengths = frame[["length_0", "length_1"]].to_numpy(dtype=float)
    sign = np.where(frame["preferred"].to_numpy(dtype=np.int64) == 0, 1, -1)
    return np.asarray((lengths[:, 0] - lengths[:, 1]) * sign)


def worth_of(codes: Ints, options: Options) -> Worth:
    """Return the weights of pairs with these codes (P, R); 0 where not judged."""
    value = {"half": (0.5, 1.0), "chance": (0.5, 1.0), "wrong": (0.0, 1.0), "drop": (0.0, 0.0)}
    kinds = np.array([(0.0, 1.0), (1.0, 1.0), value[options.ties], value[options.unparsed]])
    judged = codes != NOT_ASKED
    num, den = kinds[np.where(judged, codes, 0)].transpose(2, 0, 1)
    return Worth(np.where(judged, num, 0.0), np.where(judged, den, 0.0))


def axes(pairs: PairSet, worth: Worth, keep: Bools | None = None) -> dict[str, Axis]:
    """Return `overall`, `macro`, `natural` if pairs have weights, and each `group:NAME`."""
    keep = np.ones(len(pairs.frame), dtype=bool) if keep is None else keep
    overall = ratio(pairs, worth, keep)
    groups = {
        f"group:{name}": ratio(pairs, worth, inside)
        for g, name in enumerate(pairs.groups)
        if (inside := keep & (pairs.group == g)).any()
    }
    counted = _f1(pairs, worth, keep, groups) if pairs.f1 else list(groups.values())
    values = np.mean([axis.values for axis in counted], axis=0)
    draws = np.mean([axis.draws for axis in counted], axis=0)
    by_name = {"overall": overall, "macro": Axis(values, draws, overall.units), **groups}
    if pairs.weight is not None:
        weight = pairs.weight[:, None]
        by_name["natural"] = ratio(pairs, Worth(worth.num * weight, worth.den * weight), keep)
    return by_name


def _f1(pairs: PairSet, worth: Worth, keep: Bools, groups: dict[str, Axis]) -> list[Axis]:
    """Return F1 of each subset of solutions, or of right and of wrong steps."""
    if pairs.f1 == "steps":
        wrong = worth.den - worth.num  # of this class, or taken for it
        inside = [(pairs.group == g)[:, None] for g in range(len(pairs.groups))]
        return [
            ratio(pairs, Worth(2 * worth.num * own, 2 * worth.num * own + wrong), keep)
            for own in inside
        ]
    subsets: dict[str, list[Axis]] = {}
    for name, axis in groups.items():
        subsets.setdefault(name.rpartition(": ")[0], []).append(axis)
    return [_harmonic(own[0], own[-1]) for own in subsets.values()]


def _harmonic(a: Axis, b: Axis) -> Axis:
    """Return the harmonic mean of two accuracies, 0 where both are."""
    values = 2 * a.values * b.values / np.where(total := a.values + b.values, total, 1)
    draws = 2 * a.draws * b.draws / np.where(sums := a.draws + b.draws, sums, np.float32(1))
    return Axis(values, np.asarray(draws, dtype=np.float32), a.units + b.units)


def ratio(pairs: PairSet, worth: Worth, keep: Bools) -> Axis:
    """Return accuracies over the pairs in `keep` (P) and their draws."""
    num, den = worth.num[keep], worth.den[keep]
    counts = pairs.draws if keep.all() else pairs.draws.of(keep)
    with np.errstate(invalid="ignore", divide="ignore"):
        values = num.sum(axis=0) / den.sum(axis=0)
        alike = bool((den == den[:, :1]).all())  # then one sum serves all rewarders
        draws = counts.sums(num) / counts.sums(den[:, :1] if alike else den)
    return Axis(values, draws, len(np.unique(pairs.cluster[keep])))
