"""Runs and published tables as one meta-analysis: coverage, published examples, the command."""

import json
from html import unescape
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from scipy import stats
from synthetic import analyse, synthetic_tables
from typer.testing import CliRunner

from bon.analysis import plots
from bon.analysis.decision.meta_analysis import OWN, mean_of, pool
from bon.analysis.decision.pooled_studies import (
    Study,
    kind_of,
    model_key,
    studies_of_runs,
)
from bon.analysis.results import MetaAnalysis
from bon.analysis.verdict.posterior import CORRELATIONS
from bon.commands.main import app
from bon.core.errors import BonError

ROOT = Path(__file__).parents[2]
PUBLISHED = ROOT / "examples" / "published"


def collection(rng, z, n=10, shared=0.0, own=False, each=1):
    """Studies with Fisher's z of these sizes; residuals are `shared` in part.

    Sources of `each` benchmarks have one outcome, and benchmarks of equal z, of the same models.
    """
    x, common = rng.normal(size=(2, n))
    studies = []
    for k, one in enumerate(np.tanh(z)):
        x = rng.normal(size=n) if own else x
        rest = np.sqrt(shared) * common + np.sqrt(1 - shared) * rng.normal(size=n)
        names = tuple(f"m{k if own else 0}-{i}" for i in range(n))
        y = one * x + np.sqrt(1 - one**2) * rest
        studies.append(Study(f"s{k}", names, names, x, y))
        for _ in range(each - 1):
            other = one * y + np.sqrt(1 - one**2) * rng.normal(size=n)
            studies.append(Study(f"s{k}", names, names, other, y))
    return studies


def pooled(studies):
    return mean_of(studies, 0.95)


NORMAL = lambda rng, k: rng.normal(0.6, 0.5, k)  # noqa: E731
SCENARIOS = {
    "normal": (lambda rng, k: rng.normal(0.8, 0.4, k), 6, {}),
    "all or nothing": (lambda rng, k: np.where(rng.random(k) < 0.5, np.arctanh(0.9), 0.0), 3, {}),
    "two policies that err alike": (lambda rng, k: np.full(k, 1.1), 2, {"shared": 0.9}),
    "other rewarders": (lambda rng, k: rng.normal(0.5, 0.5, k), 8, {"own": True}),
    "four benchmarks of a source": (NORMAL, 5, {"own": True, "each": 4}),
    "small studies": (NORMAL, 4, {"own": True, "n": 5}),
}


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_mean_and_the_next_study_are_covered(scenario):
    draw, studies, more = SCENARIOS[scenario]
    target = float(np.tanh(draw(np.random.default_rng(7), 100_000).mean()))
    mean = following = 0
    for seed in range(200):
        rng = np.random.default_rng([seed, studies])
        made = collection(rng, draw(rng, studies + 1), **more)
        each = more.get("each", 1)
        seen, after = made[:-each], made[-each]
        found = pooled(seen)
        mean += found.mean.low <= target <= found.mean.high
        r = np.corrcoef(after.x, after.y)[0, 1]
        following += found.predicted.low <= r <= found.predicted.high
    print(scenario, mean / 200, following / 200)
    assert mean >= 0.9 * 200
    assert following >= 0.9 * 200


def with_likelihood(z, error, n):
    """A study whose Fisher's z has this value and standard error."""
    study = Study("", (), (), np.zeros(n), np.zeros(n))
    density = stats.norm.pdf(np.arctanh(CORRELATIONS), z, error)
    study.__dict__["likelihood"] = density
    return study


def unrelated(monkeypatch):
    monkeypatch.setattr(
        "bon.analysis.decision.meta_analysis.shared_errors", lambda studies: np.ones(len(studies))
    )


MOLLOY = (
    (109, 0.187), (749, 0.162), (55, 0.340), (107, 0.320), (72, 0.270), (65, 0.000),
    (174, 0.175), (326, 0.050), (58, 0.260), (771, 0.010), (56, -0.090), (91, 0.370),
    (116, 0.000), (537, 0.150), (158, 0.240), (65, 0.040),
)  # fmt: skip
"""n and r of Molloy, O'Carroll and Ferguson (2014), as in metafor's dat.molloy2014."""


def test_metafors_published_example_comes_out(monkeypatch):
    """rma(yi, vi, data=escalc("ZCOR", …)): z .1499 [.0881, .2118], tau .0901."""
    unrelated(monkeypatch)
    studies = [with_likelihood(np.arctanh(r), (n - 3) ** -0.5, n) for n, r in MOLLOY]
    found = pooled(studies)
    assert found.mean.value == pytest.approx(np.tanh(0.1499), abs=0.01)
    assert found.mean.low == pytest.approx(np.tanh(0.0881), abs=0.015)
    assert found.mean.high == pytest.approx(np.tanh(0.2118), abs=0.015)
    assert found.between == pytest.approx(0.0901, abs=0.03)


def test_copies_say_no_more_than_one():
    rng = np.random.default_rng(4)
    (one,) = collection(rng, [0.9], n=12)
    alone, many = pooled([one, one]), pooled([one] * 6)
    width = [found.mean.high - found.mean.low for found in (alone, many)]
    assert width[1] > 0.8 * width[0]
    apart = pooled(collection(rng, [0.9] * 6, n=12, own=True))
    assert apart.mean.high - apart.mean.low < 0.8 * width[1]


def run(seed: int, rewarders: int = 7, policies: tuple[str, ...] = ("a", "b")):
    tables = synthetic_tables(
        num_rewarders=rewarders, num_questions=40, num_pairs=60, policies=policies, seed=seed
    )
    tables.rewarders["family"] = [f"base-{i}" for i in range(rewarders)]
    return analyse(tables, draws=100)


@pytest.fixture(scope="module")
def runs():
    return [("first", run(0)), ("second", run(1, policies=("c",)))]


def pool_runs(runs):
    studies, level = studies_of_runs(runs, [])
    return pool(studies, level=level)


def test_runs_are_pooled_over_their_policies(runs):
    report = pool_runs(runs)
    (found,) = report.pools
    assert [(s.source, s.policy) for s in report.studies] == [
        ("first", "a"), ("first", "b"), ("second", "c"),
    ]  # fmt: skip
    values = [s.measured for s in report.studies]
    assert found.r.mean.low < min(values) <= max(values) < found.r.mean.high
    mean, following = found.r.mean, found.r.predicted
    assert following.low < mean.low < mean.high < following.high
    assert 0 < found.r.p_next <= 1
    assert (found.num_rewarders, found.num_bases) == (7, 7)
    without = {w.left_out: w.r for w in found.without}
    assert without["second"] == pool_runs(runs[:1]).pools[0].r


def test_a_single_study_is_not_pooled(runs):
    with pytest.raises(BonError, match="no two studies"):
        pool_runs(runs[1:])


def test_the_command_and_its_forest(runs, tmp_path):
    for name, results in runs:
        (tmp_path / name).mkdir()
        (tmp_path / name / "results.json").write_text(results.model_dump_json())
    names = [str(tmp_path / name) for name, _ in runs]
    said = CliRunner().invoke(app, ["pool", *names, "--out", str(tmp_path / "out")])
    assert said.exit_code == 0
    assert said.output.startswith(
        "Over 3 studies from 2 sources, synthetic-rewardbench has a mean r"
    )
    assert "the next study can be expected to show an r between" in said.output
    assert "changes most" in said.output
    assert (tmp_path / "out" / "forest.svg").is_file()
    again = CliRunner().invoke(app, ["pool", *names, "--json"])
    assert json.loads(again.output) == json.loads((tmp_path / "out" / "pool.json").read_text())
    twice = CliRunner().invoke(app, ["pool", names[0], names[0]])
    assert "occurs twice" in str(twice.exception)
    found = pool_runs(runs)
    for width in ("single", "double"):
        axes = plots.forest(found, width=width).axes
        shown = [t.get_text() for t in axes[0].get_yticklabels()]
        assert shown[0] == "Best-of-N"
        assert shown[-2:] == ["mean", "next study"]
        assert len(shown) == 6


# ------------------------------------------------------------------ published tables


def table(folder, name, rows, description=None, outcome="best_of_8", header="own,maker"):
    """Write a table of (model, benchmark, outcome, own, maker), and its description."""
    lines = [f"rewarder,bench,{outcome},{header}", *(",".join(map(str, row)) for row in rows)]
    (folder / f"{name}.csv").write_text("\n".join(lines))
    if description is not None:
        known = {"title": name, "table": "1", "licence": "MIT", "own": "none", "checked": "no"}
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(known | description))
    return str(folder / f"{name}.csv")


def rows_of(seed, names, r=0.8):
    rng = np.random.default_rng(seed)
    x = rng.normal(60, 10, len(names))
    y = 40 + r * (x - 60) + rng.normal(0, 5, len(names))
    return [(m, round(a, 1), round(b, 1), "", "") for m, a, b in zip(names, x, y, strict=True)]


def said(*arguments):
    result = CliRunner().invoke(app, ["pool", *map(str, arguments), "--json"])
    if result.exception is not None:
        raise result.exception
    return MetaAnalysis.model_validate_json(result.output)


MODELS = [f"Maker-RM-{i}B" for i in range(8)]


def test_tables_and_runs_are_pooled_together(runs, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "results.json").write_text(runs[1][1].model_dump_json())
    described = {
        "modality": "text",
        "benchmarks": {"bench": "B"},
        "outcomes": {"best_of_8": {"kind": "Best-of-N", "what": "MATH"}},
    }
    one = table(tmp_path, "one", rows_of(1, MODELS), described)
    other = table(tmp_path, "other", rows_of(2, MODELS), outcome="ppo")
    found = said(tmp_path / "run", one, other)
    assert [(s.source, s.kind, s.benchmark) for s in found.studies] == [
        ("run", "Best-of-N", "synthetic-rewardbench"),
        ("one", "Best-of-N", "B"),
        ("other", "PPO", "bench"),
    ]
    (both,) = found.pools
    assert (both.name, both.num_sources) == ("Best-of-N", 2)
    assert list(found.sources) == ["one"]


def test_one_model_in_two_tables_is_one(tmp_path):
    """Whatever the case and the order of the words of its name; copies count once."""
    assert model_key("InternLM2-20B-Reward") == model_key("internlm2_reward 20b")
    assert model_key("Qwen2.5-7B") != model_key("Qwen2-7B")
    rows = rows_of(1, MODELS)
    again = [(m.lower().replace("-", "_"), *rest) for m, *rest in rows]
    one, copy = table(tmp_path, "one", rows), table(tmp_path, "copy", again[:6])
    with pytest.raises(BonError, match="no two studies"):
        said(one, copy)
    third = table(tmp_path, "third", rows_of(3, MODELS))
    found = said(one, copy, third)
    assert [s.source for s in found.studies] == ["one", "third"]
    assert found.pools[0].num_rewarders == 8
    assert (
        "copy and one hold the same bench and Best-of-N of 6 models: one counts." in found.warnings
    )
    apart = table(tmp_path, "apart", [(f"x{m}", *rest) for m, *rest in rows_of(3, MODELS)])
    assert said(one, apart).pools[0].num_rewarders == 16
    assert any(w.startswith("Tables differ in bench of 8 models") for w in found.warnings)


def test_the_authors_models_and_a_maker_are_left_out(tmp_path):
    rows = rows_of(1, MODELS, r=0.0)
    lab = [(f"Lab-{i}", 80 + 5 * i, 70 + 5 * i, "yes", "Lab") for i in range(3)]
    paper = table(tmp_path, "paper", [*rows, *lab])
    found = said(paper, table(tmp_path, "other", rows_of(5, [f"o{i}" for i in range(9)])))
    study = next(s for s in found.studies if s.source == "paper")
    assert study.num_own == 3
    assert study.without_own.n == 8
    assert study.without_own.value < study.r.value - 0.3
    without = {w.left_out: w.r.mean.value for w in found.pools[0].without}
    assert set(without) == {OWN, "models of Lab"}, "one source alone is no pool"
    assert without[OWN] == without["models of Lab"] < found.pools[0].r.mean.value


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("Best-of-8 MATH", "Best-of-N"), ("bon@16", "Best-of-N"), ("majority_vote", "Best-of-N"),
        ("guided_search", "guided search"), ("DPO", "DPO"), ("ppo_qwen", "PPO"),
        ("grpo", "other RL"), ("rejection_sft", "fine-tuning"), ("Arena Elo", "human ranking"),
        ("judgebench", "another benchmark"),
    ],
)  # fmt: skip
def test_kinds_of_outcomes_are_known_by_name(name, kind):
    assert kind_of(name) == kind


GOOD = {
    "benchmarks": {"bench": "B"},
    "outcomes": {"best_of_8": {"kind": "Best-of-N", "what": "MATH"}},
}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"benchmarks": {"bnech": "B"}}, r"one\.csv: no column 'bnech' -> columns are"),
        ({"outcomes": {"best_of_8": {"kind": "BoN", "what": ""}}}, r"one\.yaml.*kind: found 'BoN'"),
        ({"licens": "MIT"}, r"one\.yaml.*unknown key 'licens'"),
        ({"outcomes": []}, r"one\.yaml.*outcomes"),
    ],
)
def test_a_description_that_does_not_fit_is_one_line(tmp_path, change, says):
    one = table(tmp_path, "one", rows_of(1, MODELS), GOOD | change)
    with pytest.raises(BonError, match=says) as caught:
        said(one)
    assert "\n" not in str(caught.value)


def test_what_is_no_study_is_one_line(tmp_path):
    few = table(tmp_path, "few", rows_of(1, MODELS[:3]))
    for arguments, says in (
        ([tmp_path / "nothing"], "neither a run nor a table nor a folder of tables"),
        ([tmp_path / "nothing.csv"], "no file"),
        ([few, few], "occurs twice"),
        ([few], "no two studies"),
    ):
        with pytest.raises(BonError, match=says) as caught:
            said(*arguments)
        assert "\n" not in str(caught.value)
    (tmp_path / "empty").mkdir()
    with pytest.raises(BonError, match="neither a run nor a table nor a folder of tables"):
        said(tmp_path / "empty")


# ------------------------------------------------------------------ the evidence page


@pytest.fixture(scope="module")
def evidence(tmp_path_factory):
    out = tmp_path_factory.mktemp("evidence")
    result = CliRunner().invoke(app, ["pool", str(PUBLISHED), "--out", str(out)])
    assert result.exit_code == 0, result.exception
    return out


def test_docs_hold_the_evidence_of_the_published_tables(evidence):
    """`make evidence` writes it again."""
    page = (ROOT / "docs" / "evidence.md").read_text(encoding="utf-8")
    generated = page.partition("is its output -->\n\n")[2]
    assert generated == (evidence / "evidence.md").read_text(encoding="utf-8")


def test_outcomes_are_compared_over_the_rewarders_that_both_have(evidence):
    """The correlation of the two columns of a table, found in its file."""
    found = MetaAnalysis.model_validate_json((evidence / "pool.json").read_text())
    by_names = {each.outcomes: each for each in found.agreements}
    both = by_names["Best-of-N, rprm", "guided search, rprm"]
    table = pd.read_csv(PUBLISHED / "rprm.csv")
    described = yaml.safe_load((PUBLISHED / "rprm.yaml").read_text())["outcomes"]
    one, other = (
        next(name for name, column in described.items() if column["kind"] == kind)
        for kind in ("Best-of-N", "guided search")
    )
    rows = table.dropna(subset=[one, other])
    assert both.num_rewarders == len(rows)
    assert both.measured == pytest.approx(np.corrcoef(rows[one], rows[other])[0, 1])
    assert both.r.low < both.measured < both.r.high
    assert not [a for a, b in by_names if a.partition(",")[0] == b.partition(",")[0] == "DPO"]
    page = unescape((evidence / "index.html").read_text(encoding="utf-8"))
    assert "Outcomes with each other" in page


def test_every_study_of_the_page_has_its_source(evidence):
    found = MetaAnalysis.model_validate_json((evidence / "pool.json").read_text())
    assert {s.source for s in found.studies} <= set(found.sources)
    assert len(found.sources) >= 15
    assert all(s.modality for s in found.studies)
    page = unescape((evidence / "index.html").read_text(encoding="utf-8"))
    for text in (found.sentence, *found.would_change, *(s.table for s in found.sources.values())):
        assert text in page
    assert 'src="http' not in page
    preference = next(
        s for s in found.studies if (s.source, s.benchmark) == ("skywork_reward_v2", "RewardBench")
    )
    assert preference.measured == pytest.approx(0.49, abs=0.005)
    assert preference.num_own == 12
