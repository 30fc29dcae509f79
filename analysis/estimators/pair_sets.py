"""The pairs of a reward benchmark with what was said about them, and accuracies over them.

Overall (micro) is the mean over pairs, macro the mean over groups; they are never mixed. Where
pairs were drawn from a larger pool with known probabilities, `natural` is the accuracy on that pool
(Hájek's ratio of weighted sums). Pairs
are resampled within their group and together with pairs of the same cluster, or else of the
same id, which share a question. Undecided pairs count as `Options.ties` and `Options.unparsed` say.
"""

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bon.analysis.data.arrays import Run
from bon.analysis.data.verdicts import (
    NOT_ASKED,
    RIGHT,
    TIE,
    UNDECIDED,
    WRONG,
    Verdicts,
    verdicts,
)
from bon.analysis.estimators import resampling
from bon.analysis.estimators.resampling import Draws
from bon.analysis.results import (
    Options,
    Treatment,
)

Floats = NDArray[np.float64]
Floats32 = NDArray[np.float32]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

MIN_GROUP = 5  # groups with fewer pairs have no axis of their own


@dataclass(frozen=True)
class PairSet:
    """The pairs of one benchmark. `rows` are their positions in the table of all pairs."""

    name: str
    frame: pd.DataFrame
    rows: Ints
    preferred: Ints
    group: Ints
    groups: tuple[str, ...]
    draws: Draws
    cluster: Ints
    clustered: bool = False  # the benchmark itself says which pairs are about one thing
    weight: Floats | None = None  # pairs of the pool that each stands for
    sets: Ints | None = None  # pairs of one better response; -1: of no set

    @property
    def leaked(self) -> Bools:
        """Pairs that are also downstream questions (P)."""
        return np.asarray(self.frame["leaked"].fillna(False), dtype=bool)


@dataclass(frozen=True)
class Axis:
    """Benchmark accuracy of R rewarders in one definition, with draws (R, B).

    `units`: how many clusters the draws resampled; pairs of one cluster come and go together.
    """

    values: Floats
    draws: Floats32
    units: int


@dataclass(frozen=True)
class Worth:
    """What each pair is worth to each rewarder: `num`/`den` (P, R) add up to accuracies."""

    num: Floats
    den: Floats


def pair_sets(run: Run, options: Options) -> list[PairSet]:
    """One set for each benchmark of the run, with its bootstrap draws."""
    sets = []
    table = run.tables.pairs.reset_index(drop=True)
    for name, frame in table.groupby("benchmark", sort=False, observed=True):
        group, groups = pd.factorize(frame["group"].fillna("").astype(str), sort=True)
        ids, clustered = frame["id"].astype(str), False
        if "cluster" in frame:  # pairs about one thing, where a benchmark says so
            said = frame["cluster"].fillna("").astype(str)
            ids, clustered = ids.where(said == "", "\0" + said), bool((said != "").all())
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
            )
        )
    return sets


def _sets(frame: pd.DataFrame) -> Ints:
    """The set of every pair; -1 where it is the only one of it, or of none."""
    said = frame["set"].fillna("").astype(str)
    alone = (said == "") | (said.map(said.value_counts()) == 1)
    return np.asarray(pd.factorize(said.where(~alone))[0], dtype=np.int64)


def all_verdicts(run: Run, pairs: PairSet) -> dict[str, Verdicts]:
    """Verdicts on these pairs of every rewarder that was asked about any of them."""
    place = np.full(len(run.tables.pairs), -1)
    place[pairs.rows] = np.arange(len(pairs.rows))
    found = {}
    for rewarder in run.rewarders:
        judged = run.pairs[rewarder]
        here = np.flatnonzero(place[judged.item] >= 0)
        if len(here):
            part = judged.take(here)
            found[rewarder] = verdicts(replace(part, item=place[part.item]), pairs.preferred)
    return found


def ensemble_verdicts(members: list[Verdicts]) -> Verdicts:
    """The majority of the members that decided."""
    codes = np.stack([m.code for m in members])
    votes = np.stack([(codes == c).sum(axis=0) for c in (RIGHT, WRONG, TIE)], axis=1)
    code = np.where(
        votes[:, 0] > votes[:, 1], RIGHT, np.where(votes[:, 0] < votes[:, 1], WRONG, TIE)
    )
    code = np.where(votes.sum(axis=1) == 0, UNDECIDED, code)
    code = np.where((codes == NOT_ASKED).any(axis=0), NOT_ASKED, code)
    return Verdicts(code, None, None, {})


def baseline_verdicts(frame: pd.DataFrame, name: str) -> Verdicts:
    """`longest` and `random` on preference pairs."""
    if name == "random":
        return Verdicts(np.full(len(frame), TIE), None, None, {})
    lengths = frame[["length_0", "length_1"]].to_numpy(dtype=float)
    preferred = frame["preferred"].to_numpy(dtype=np.int64)
    rows = np.arange(len(frame))
    gap = lengths[rows, preferred] - lengths[rows, 1 - preferred]
    code = np.where(gap > 0, RIGHT, np.where(gap < 0, WRONG, TIE))
    return Verdicts(np.where(np.isnan(gap), UNDECIDED, code), None, None, {})


def worths(treatment: Treatment, options: Options) -> tuple[Floats, Floats]:
    """Numerator and denominator of WRONG, RIGHT, TIE, UNDECIDED under a treatment."""
    ties, undecided = {
        "headline": (options.ties, options.unparsed),
        "drop": ("drop", "drop"),
        "wrong": ("wrong", "wrong"),
        "chance": ("half", "chance"),
        "official": ("drop", "drop"),
    }[treatment]
    value = {"half": (0.5, 1.0), "chance": (0.5, 1.0), "wrong": (0.0, 1.0), "drop": (0.0, 0.0)}
    num = np.array([0.0, 1.0, value[ties][0], value[undecided][0]])
    den = np.array([1.0, 1.0, value[ties][1], value[undecided][1]])
    return num, den


def worth_of(codes: Ints, treatment: Treatment, options: Options) -> Worth:
    """What pairs with these codes (P, R) are worth; pairs not asked about are left out."""
    num, den = worths(treatment, options)
    asked = codes != NOT_ASKED
    safe = np.where(asked, codes, 0)
    return Worth(np.where(asked, num[safe], 0.0), np.where(asked, den[safe], 0.0))


def axes(pairs: PairSet, worth: Worth, keep: Bools | None = None) -> dict[str, Axis]:
    """Every x axis: `overall`, `macro`, `natural` if pairs have weights, and `group:NAME`."""
    keep = np.ones(len(pairs.frame), dtype=bool) if keep is None else keep
    found: dict[str, Axis] = {}
    parts = []
    total = ratio(pairs, worth, keep)
    for g, name in enumerate(pairs.groups):
        inside = keep & (pairs.group == g)
        if inside.any():
            axis = ratio(pairs, worth, inside)
            parts.append(axis)
            found[f"group:{name}"] = axis
    values = np.stack([a.values for a in parts])
    draws = np.stack([a.draws for a in parts])
    macro = Axis(_nanmean(values), _nanmean(draws).astype(np.float32), total.units)
    if pairs.weight is not None:
        weight = pairs.weight[:, None]
        found["natural"] = ratio(pairs, Worth(worth.num * weight, worth.den * weight), keep)
    return {"overall": total, "macro": macro, **found}


def _nanmean(x: NDArray[np.floating]) -> Floats:
    """Mean over the first axis, NaN where any part is unknown."""
    return np.asarray(x.mean(axis=0), dtype=float)


def ratio(pairs: PairSet, worth: Worth, keep: Bools) -> Axis:
    """Accuracies over the pairs in `keep` (P) and their draws."""
    num, den = worth.num[keep], worth.den[keep]
    counts = pairs.draws if keep.all() else pairs.draws.of(keep)
    with np.errstate(invalid="ignore", divide="ignore"):
        values = num.sum(axis=0) / den.sum(axis=0)
        alike = bool((den == den[:, :1]).all())  # every pair counts: one sum is that of all
        draws = counts.sums(num) / counts.sums(den[:, :1] if alike else den)
    return Axis(values, draws, len(np.unique(pairs.cluster[keep])))
