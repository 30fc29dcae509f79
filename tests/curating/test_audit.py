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
from bon.curating.item_audit import Evidence, shortcut_audit
from bon.curating.items import write_items
from bon.curating.labelling.annotations import add
from bon.curating.workbench import open_workbench
from tests.curating.items_of_run import bench_of, every_pair
from tests.curating.simulated_labels import made_item, made_items, said_by

OPTIONS = Options(draws=200)


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


NOTHING = Evidence()


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
        Evidence(credits, frozenset({"blind"}), likelihood),
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
