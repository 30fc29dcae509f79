"""The audit: planted mislabels, errors and shortcuts are found; it works at every stage."""

import json

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from typer.testing import CliRunner

from bon.analysis.results import Options
from bon.analysis.results.audit import CurationAudit
from bon.commands.main import app
from bon.core.errors import BonError
from bon.curating.audit import audit, write_audit
from bon.curating.item_audit import Evidence, items_audit, shortcut_audit
from bon.curating.items import write_items
from bon.curating.label_audit import Labelling
from bon.curating.labelling.annotations import add
from bon.curating.workbench import open_workbench
from tests.curating.items_of_run import bench_of, every_pair
from tests.curating.simulated_labels import credits_of, made_item, made_items, said_by

OPTIONS = Options(draws=200)


def evidence_of(frame, **given):
    credits = frame.groupby(["item", "rewarder"])["credit"].mean().unstack("rewarder")
    orders = frame["order"].map({0: "0-1", 1: "1-0"})
    return Evidence(credits, frame.assign(order=orders), **given)


@pytest.fixture(scope="module")
def planted():
    """160 items of 12 rewarders from poor to good; eight labels are wrong."""
    rng = np.random.default_rng(11)
    items, truth = made_items(160, rng, mislabelled=set(range(8)))
    abilities = {f"r{n:02}": value for n, value in enumerate(np.linspace(-1.5, 3, 12))}
    return items, truth, credits_of(items, truth, rng, abilities, slip=0.05)


def test_planted_mislabels_are_the_most_negative(planted):
    items, _, frame = planted
    found = items_audit(Labelling(items, [], {}, 2), evidence_of(frame), OPTIONS)
    wrong = {item.key for item in items[:8]}
    assert len(wrong & set(found.suspects)) >= 7
    assert len(wrong & set(found.suspects[:12])) >= 5, "they head the list"
    strong = found.discrimination.below[1]
    assert strong.items > strong.by_chance.high
    assert all(one.flips.low < 0.15 for one in found.rewarders)
    assert found.reliability.low > 0.8


def test_a_rewarder_of_few_items_takes_none_from_the_others(planted):
    items, _, frame = planted
    few = {item.key for item in items[:12]}
    part = frame[(frame["rewarder"] != "r06") | frame["item"].isin(few)]
    found = items_audit(Labelling(items, [], {}, 2), evidence_of(part), OPTIONS)
    assert found.num_pairs == 11 * 10 // 2
    assert found.reliability.n == 160
    assert found.distinguished > 0.3
    by_name = {one.rewarder: one for one in found.rewarders}
    assert by_name["r06"].items == 12, "it is shown"


def test_one_rewarder_is_compared_with_none(planted):
    items, _, frame = planted
    one = evidence_of(frame[frame["rewarder"] == "r05"])
    alone = items_audit(Labelling(items, [], {}, 2), one, OPTIONS)
    assert (alone.distinguished, alone.discordance, alone.needed) == (None, None, ())
    assert alone.discrimination is None
    nobody = Evidence(pd.DataFrame(), frame[:0])
    assert items_audit(Labelling(items, [], {}, 2), nobody, OPTIONS) is None


def test_weighing_recovers_the_accuracy_on_the_pool():
    """Items that a rewarder fails on were drawn ten times as often as the others."""
    rng = np.random.default_rng(5)
    items, truth, rows = [], [], []
    for number in range(6000):
        hard = rng.random() < 0.5
        if rng.random() < (0.5 if hard else 0.05):
            item = made_item(number, better=0, probability=0.5 if hard else 0.05)
            items.append(item)
            truth.append(0)
            rows.append((item.key, "r", 0, float(rng.random() < (0.3 if hard else 0.9))))
    frame = pd.DataFrame(rows, columns=["item", "rewarder", "order", "credit"])
    found = items_audit(Labelling(items, [], {}, 2), evidence_of(frame), OPTIONS)
    accuracy, on_pool = found.rewarders[0].accuracy, found.rewarders[0].on_pool
    assert accuracy.high < 0.45
    assert on_pool.low <= 0.6 <= on_pool.high


def formed_items(longer_is_right, count=60):
    """Pairs of a long and a short text, the long one right with this chance."""
    rng = np.random.default_rng(2)
    items = []
    for number in range(count):
        texts = ["short " * int(rng.integers(3, 9)), "long " * int(rng.integers(20, 40))]
        right = int(rng.random() < longer_is_right)
        if rng.random() < 0.5:
            texts, right = texts[::-1], 1 - right
        items.append(made_item(number, better=right, texts=texts))
    return items


NOTHING = Evidence(pd.DataFrame(), pd.DataFrame())


def test_a_shortcut_is_seen_and_none_invented():
    found = shortcut_audit(formed_items(0.9), NOTHING, OPTIONS)
    rules = {one.rule: one for one in found.rules}
    assert rules["longer"].accuracy.value == pytest.approx(0.9, abs=0.08)
    assert rules["shorter"].accuracy.value == pytest.approx(1 - rules["longer"].accuracy.value)
    assert rules["first"].accuracy.low < 0.5 < rules["first"].accuracy.high
    assert "has a box" not in rules, "a rule that never decides says nothing"
    assert found.auc.low > 0.6
    fair = shortcut_audit(formed_items(0.5), NOTHING, OPTIONS)
    assert fair.auc.low < 0.5 < fair.auc.high


def test_blind_rewarders_and_likelihood_are_rules_too():
    items = formed_items(0.5, 30)
    credits = pd.DataFrame({"blind": 1.0, "seeing": 0.0}, index=[i.key for i in items])
    likelihood = {
        (item.question, key): -float(place != item.better)
        for item in items[:20]
        for place, key in enumerate(item.text_keys)
    }
    found = shortcut_audit(
        items,
        Evidence(credits, pd.DataFrame(), frozenset({"blind"}), likelihood),
        OPTIONS,
    )
    rules = {one.rule: one for one in found.rules}
    assert rules["blind (sees no image)"].accuracy.value == 1
    assert rules["more likely"].accuracy.n == 20
    assert rules["more likely"].accuracy.value == 1
    assert rules["first"].chance == 0.5
    assert found.pairs == 30


# ------------------------------------------------------------------ the command


def run_audit(*arguments):
    return CliRunner().invoke(app, ["curate", "audit", *map(str, arguments)])


def test_it_works_at_every_stage(judged, tmp_path):
    bench = bench_of(judged, every_pair(judged)[:60], tmp_path / "stages")
    bench.items_path.rename(tmp_path / "kept")
    nothing = run_audit(bench.directory)
    assert isinstance(nothing.exception, BonError)
    assert "bon curate draw --out" in str(nothing.exception)
    (tmp_path / "kept").rename(bench.items_path)

    early = run_audit(bench.directory)
    assert early.exit_code == 0, early.output
    assert "nobody has labelled an item" in early.output
    found = CurationAudit.model_validate_json(bench.audit_path.read_text())
    assert found.labels is None
    assert len(found.by_rewarders.rewarders) == 5
    assert found == audit(open_workbench(bench.directory)), "the same whenever it is made"

    rng = np.random.default_rng(0)
    truth = [item.better for item in bench.items]
    add(bench.annotations_path, *said_by(bench.items, truth, ["<b>ann", "bob"], rng, 0.1))
    late = run_audit(bench.directory, "--json")
    labels = json.loads(late.output)["labels"]
    assert labels["answered"] == len(bench.items)
    page = bench.audit_path.with_suffix(".html").read_text()
    assert "&lt;b&gt;ann" in page
    assert "<b>ann" not in page
    assert "function sortable(" in page, "the code of the tables is there with that of the page"
    main = page.partition("<main")[2].partition("</main>")[0]
    assert "NaN" not in main
    assert "None" not in main


def test_without_the_run_people_are_still_audited(tmp_path):
    items, truth = made_items(40, np.random.default_rng(1), images=("images/a.png",))
    bench = hand_made(tmp_path / "alone", items)
    (bench.directory / "images").mkdir()
    Image.new("RGB", (4, 4), "red").save(bench.directory / "images" / "a.png")
    add(bench.annotations_path, *said_by(items, truth, ["ann"], np.random.default_rng(1), 0.1))
    found = write_audit(bench)
    assert found.by_rewarders is None
    assert any(line.startswith("Rewarders: no run in") for line in found.missing)
    assert "Agreement: no item has two answers -> a second annotator" in found.missing
    assert found.labels.error_corrected.value is None
    page = bench.audit_path.with_suffix(".html").read_text()
    assert "data:image/png;base64," in page
    assert set(found.labels.contradicted) <= {item.key for item in items}


def test_two_items_of_one_annotator_are_no_label_error(tmp_path):
    items, truth = made_items(40, np.random.default_rng(1))
    bench = hand_made(tmp_path / "few", items)
    rng = np.random.default_rng(1)
    add(bench.annotations_path, *said_by(items[:2], 1 - truth[:2], ["ann"], rng, 0))
    done = run_audit(bench.directory)
    message = "One annotator has chosen a response for 2 of 40 items: too few for a label error"
    assert message in done.output
    assert "100" not in done.output
    page = bench.audit_path.with_suffix(".html").read_text().partition("<main")[2]
    assert "too few items (2)" in page
    assert "the annotator says" in page
    assert "people" not in page


@pytest.mark.parametrize(("chance", "blocked"), [(0.95, True), (0.5, False)])
def test_a_shortcut_blocks_the_freeze(tmp_path, chance, blocked):
    bench = hand_made(tmp_path / "formed", formed_items(chance))
    found = audit(bench)
    assert bool(found.blocks) == blocked
    assert any("“longer” is right" in line for line in found.warnings) == blocked
    if blocked:
        assert "above .60 (mostly log length)" in found.blocks[0]
        assert "Stops the freeze:" in run_audit(bench.directory).output


def hand_made(folder, items):
    """A folder whose run is not there."""
    folder.mkdir()
    (folder / "recipe.yaml").write_text("runs: [../nowhere]\n")
    bench = open_workbench(folder)
    write_items(items, bench.items_path)
    return bench
