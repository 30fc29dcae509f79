"""`bon curate judge`: what is missing is asked for, and nothing else."""

import shutil

import numpy as np
import pytest
import yaml
from typer.testing import CliRunner

from bon.commands.main import app
from bon.curating.item_judgements import credits, verdicts, write_judging
from bon.curating.propose import propose
from bon.curating.workbench import open_workbench
from bon.running.reporting import report_run
from bon.storage.store import Store
from tests.curating.items_of_run import missing
from tests.curating.test_propose import bench_with
from tests.running.conftest import go_in


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_what_is_missing_is_asked_for(judged, tmp_path):
    bench = bench_with(judged, tmp_path / "bench")
    propose(bench, quiet=True)
    lacking = missing(bench)
    before = verdicts(bench)
    assert lacking["judge"] > 0  # across policies nothing was compared
    done = CliRunner().invoke(app, ["curate", "judge", str(bench.directory)])
    assert done.exit_code == 0, done.output
    assert f"judge{'':<27}lacks {lacking['judge']}\n" in done.stdout
    assert f"bon run {bench.judging_path} --out {bench.judged}" in done.stdout
    raw = yaml.safe_load(bench.judging_path.read_text())
    names = {name for name, count in lacking.items() if count}
    assert {ref["name"] for ref in raw["rewarders"]} == names
    go_in(bench.directory)(raw, out="judged")
    with Store(bench.judged, readonly=True) as store:
        pairs = store.count("pairs", "active > 0")
        asked = store.count("judgements", "rewarder = 'judge' AND item_kind = 'pair'")
        alone = store.count("questions")
    assert alone == 0
    assert asked == 2 * pairs
    report_run(bench.judged, quiet=True)
    again = open_workbench(bench.directory)
    assert set(missing(again).values()) == {0}
    whole = verdicts(again)
    key = ["item", "rewarder", "order"]
    same = before.merge(whole, on=key, suffixes=("", "_now"))
    assert len(same) == len(before)
    assert np.array_equal(same["credit"], same["credit_now"], equal_nan=True)
    assert credits(again).notna().all(axis=None)
    assert "has judged every item" in write_judging(again)


def test_nothing_is_missing_of_one_policy(judged, tmp_path):
    bench = bench_with(judged, tmp_path, quotas="{near-miss: 1}")
    propose(bench, quiet=True)
    assert {name for name, count in missing(bench).items() if count} <= {"lister"}


def test_audit_and_judge_agree_on_an_item_without_a_verdict(judged, tmp_path):
    """Its replies were read and state nothing: it was judged, and is not missing."""
    run = tmp_path / "run"
    shutil.copytree(judged, run)
    bench = bench_with(run, tmp_path / "bench", quotas="{near-miss: 1}")
    propose(bench, quiet=True)
    before = missing(bench)
    judged_items = set(verdicts(bench).query("rewarder == 'judge'")["item"])
    item = next(item for item in bench.items if item.key in judged_items)
    with Store(run) as store, store.transaction():
        store.query(
            "UPDATE judgements SET outcome = 'unparsed' WHERE rewarder = 'judge' AND item = ? "
            "AND first IN (?, ?) AND second IN (?, ?)",
            (item.question, *item.text_keys, *item.text_keys),
        )
    audit, judge = (
        CliRunner().invoke(app, ["curate", name, str(bench.directory)]).output
        for name in ("audit", "judge")
    )
    assert "judge judged 1 item without a verdict" in audit
    most = max(before.values())
    assert (f"up to {most} missing" in audit) == (most > 0)
    assert missing(bench) == before
    assert (f"judge{'':<27}lacks" in judge) == (before["judge"] > 0)
