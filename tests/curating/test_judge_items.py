"""An ordinary run over the drawn pairs adds the verdicts that the runs lack."""

import shutil

import numpy as np
import pytest
from typer.testing import CliRunner

from bon.commands.main import app
from bon.curating.item_judgements import credits, verdicts
from bon.curating.propose import propose
from bon.curating.workbench import open_workbench
from bon.running.reporting import open_run
from bon.storage.store import Store
from tests.curating.items_of_run import missing
from tests.curating.test_propose import bench_with
from tests.running.conftest import go_in


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_a_run_over_the_pairs_adds_verdicts(judged, tmp_path):
    bench = bench_with(judged, tmp_path / "bench")
    propose(bench, quiet=True)
    before = verdicts(bench)
    assert missing(bench)["judge"] > 0  # across policies nothing was compared
    audit = CliRunner().invoke(app, ["curate", "audit", str(bench.directory)]).output
    assert f"bon run EXPERIMENT --out {bench.judged}, its pairs: {bench.pairs_path}" in audit
    with Store(judged, readonly=True) as store:
        rewarders = open_run(store).raw["rewarders"]
    raw = {
        "name": "verdicts",
        "policies": [],
        "pairs": [{"benchmark": "preference", "path": "pairs.parquet"}],
        "rewarders": [card for card in rewarders if card["name"] != "lister"],
    }
    go_in(bench.directory)(raw, out="judged")
    again = open_workbench(bench.directory)
    assert {name for name, count in missing(again).items() if count} <= {"lister"}
    whole = verdicts(again)
    same = before.merge(whole, on=["item", "rewarder", "order"], suffixes=("", "_now"))
    assert len(same) == len(before)
    assert np.array_equal(same["credit"], same["credit_now"], equal_nan=True)


def test_an_item_whose_replies_state_nothing_was_judged(judged, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(judged, run)
    bench = bench_with(run, tmp_path / "bench", quotas="{near-miss: 1}")
    propose(bench, quiet=True)
    judged_items = set(verdicts(bench).query("rewarder == 'judge'")["item"])
    item = next(item for item in bench.items if item.key in judged_items)
    with Store(run) as store, store.transaction():
        store.query(
            "UPDATE judgements SET outcome = 'unparsed' WHERE rewarder = 'judge' AND item = ? "
            "AND first IN (?, ?) AND second IN (?, ?)",
            (item.question, *item.text_keys, *item.text_keys),
        )
    assert credits(bench).loc[item.key].isna()["judge"]
    audit = CliRunner().invoke(app, ["curate", "audit", str(bench.directory)]).output
    assert "judge judged 1 item without a verdict" in audit
