"""The posterior of r and its rivals, against enumeration and simulation."""

import itertools

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

from bon.analysis.verdict import rivals
from bon.analysis.verdict.posterior import (
    CORRELATIONS,
    DEVIATIONS,
    SHARES,
    error_variance,
    posterior,
)
from bon.analysis.verdict.rivals import VARIANCES, accounts
from bon.analysis.verdict.verdict import Axes, judge


def population(rng, n, r, error=0.0, spread=0.05):
    x = rng.normal(size=n)
    y = r * x + np.sqrt(1 - r * r) * rng.normal(size=n)
    noise = error * rng.normal(size=(2, n))
    return 0.6 + spread * (x + noise[0]), 0.5 + spread * (y + noise[1])


def test_the_posterior_is_that_of_the_whole_covariance():
    """Every cell of the grid, by the density of all contrasts at once."""
    rng = np.random.default_rng(1)
    x, y = population(rng, 5, 0.7)
    bases = ["a", "a", "b", "b", "c"]
    same = np.equal.outer(bases, bases).astype(float)
    units = [v.std(ddof=1) for v in (x, y)]
    contrasts = np.eye(5)[:4] - np.eye(5)[1:]  # another basis than the product's
    values = np.concatenate([contrasts @ (v / u) for v, u in zip((x, y), units, strict=True)])
    vx, vy = 0.1, 0.2
    log = np.zeros((len(SHARES), len(CORRELATIONS), 14, 14))
    for cell in np.ndindex(log.shape):
        share, r, tx, ty = SHARES[cell[0]], CORRELATIONS[cell[1]], *DEVIATIONS[list(cell[2:])]
        if cell[1] % 6 or cell[2] % 3 or cell[3] % 3:
            log[cell] = -np.inf
            continue
        between = share * same + (1 - share) * np.eye(5)
        blocks = np.block(
            [
                [tx**2 * between + vx * np.eye(5), r * tx * ty * between],
                [r * tx * ty * between, ty**2 * between + vy * np.eye(5)],
            ]
        )
        both = np.kron(np.eye(2), contrasts)
        log[cell] = stats.multivariate_normal.logpdf(values, cov=both @ blocks @ both.T)
    errors = vx * units[0] ** 2, vy * units[1] ** 2
    thin = np.exp(log - log.max())
    expected = thin.sum(axis=(0, 2, 3)) / thin.sum()
    import bon.analysis.verdict.posterior as module

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "DEVIATIONS", DEVIATIONS[::3])
        found = posterior(x, y, errors, bases).probability[::6]
    assert found / found.sum() == pytest.approx(expected[::6], abs=1e-9)


def test_groups_are_averaged_over_all_cuts():
    rng = np.random.default_rng(2)
    x, y = population(rng, 7, 0.5)
    sx, sy = ((v - v.mean()) / v.std(ddof=1) for v in (x, y))
    order = np.argsort(sx + sy)
    sx, sy = sx[order], sy[order]

    def level(v, variance):
        return stats.multivariate_normal.logpdf(
            v, cov=variance * np.eye(len(v)) + np.ones((len(v), len(v)))
        )

    def cuts(n, k):
        if k == 1:
            yield [n]
            return
        for first in range(1, n - k + 2):
            yield from ([first, *rest] for rest in cuts(n - first, k - 1))

    from scipy.special import gammaln

    logs = []
    for vx in VARIANCES:
        for vy in VARIANCES:
            for k in (1, 2, 3):
                terms = []
                for sizes in cuts(7, k):
                    edges = np.cumsum([0, *sizes])
                    total = gammaln(k) - gammaln(7 + k) + sum(gammaln(s + 1) for s in sizes)
                    for a, b in itertools.pairwise(edges):
                        total += level(sx[a:b], vx) + level(sy[a:b], vy)
                    terms.append(total)
                logs.append(logsumexp(terms))
    expected = logsumexp(logs) - np.log(len(logs))
    places = np.arange(8)
    on_x, on_y = (rivals._level_evidence(v, places) for v in (sx, sy))
    assert rivals._group_evidence(on_x, on_y, places) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(("n", "bases", "error"), [(8, 8, 0.3), (14, 6, 0.5), (20, 20, 1.0)])
def test_the_posterior_is_calibrated_on_its_own_prior(n, bases, error):
    """Simulation-based calibration (Talts et al. 2018): ranks of the true r are uniform."""
    ranks = []
    for seed in range(200):
        rng = np.random.default_rng([seed, n])
        r, share = rng.uniform(-0.99, 0.99), rng.choice(SHARES) if bases < n else 0.0
        of = np.arange(n) % bases
        latent = np.zeros((2, n))
        for part, place, count in ((share, of, bases), (1 - share, np.arange(n), n)):
            a = rng.normal(size=count)
            b = r * a + np.sqrt(1 - r * r) * rng.normal(size=count)
            latent += np.sqrt(part) * np.stack([a[place], b[place]])
        scales = rng.uniform(0.6, 1.4, 2)
        x, y = scales[:, None] * latent + error * rng.normal(size=(2, n))
        post = posterior(x, y, (error**2, error**2), of.tolist())
        ranks.append(1 - post.above(r))
    counts = np.histogram(ranks, 8, (0, 1))[0]
    assert stats.chisquare(counts).pvalue > 0.001, counts


def test_what_all_rewarders_share_is_no_error():
    own = np.diag([0.1, 0.2, 0.3])
    assert error_variance(own) == pytest.approx(0.2)
    assert error_variance(own + 5.0) == pytest.approx(0.2)


def named(n):
    return tuple(f"m{i}" for i in range(n))


def test_the_verdict_depends_on_no_order_and_no_unit():
    rng = np.random.default_rng(3)
    x, y = population(rng, 12, 0.9)
    bases = tuple("abcabcabcdef")
    first = judge(Axes(named(12), x, y, bases=bases))
    rows = rng.permutation(12)
    second = judge(
        Axes(
            tuple(named(12)[i] for i in rows), x[rows], y[rows], bases=tuple(bases[i] for i in rows)
        )
    )
    assert first is not None
    assert second is not None
    assert second.word == first.word
    assert second.p_yes == pytest.approx(first.p_yes)
    assert second.weakest == first.weakest.model_copy(
        update={"p_yes": pytest.approx(first.weakest.p_yes)}
    )
    assert accounts(x, y) == pytest.approx(accounts(10 * x + 3, 7 * y))


def test_noise_never_says_no():
    """Rewarders of one accuracy, measured on 60 items: nothing is known of r."""
    words = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        x, y = rng.binomial(60, 0.6, 30) / 60, rng.binomial(60, 0.5, 30) / 60
        errors = [np.eye(30) * p * (1 - p) / 60 for p in (0.6, 0.5)]
        verdict = judge(Axes(named(30), x, y, *errors))
        words.append(verdict.word)
    assert set(words) <= {"cannot tell", "perhaps"}
    assert words.count("cannot tell") >= 38
