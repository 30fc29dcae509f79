"""The audit: planted mislabels, errors and shortcuts are found; it works at every stage."""

import json

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from bon.analysis.results import Options
from bon.analysis.results.audit import CurationAudit
from bon.commands.main import app
from bon.core.errors import BonError
from bon.curating.audit import audit, shortcut_audit, write_audit
from bon.curating.items import write_items
from bon.curating.labelling.annotations import add
from bon.curating.workbench import open_workbench
from tests.curating.labelled_items import curated, made_items, said_by

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
        items.append(curated(number, better=right, responses=tuple(texts)))
    return items


def test_a_shortcut_is_seen_and_none_invented():
    found = shortcut_audit(formed_items(0.9), OPTIONS)
    rules = {one.rule: one for one in found.rules}
    assert rules["longer"].accuracy.value == pytest.approx(0.9, abs=0.08)
    assert rules["shorter"].accuracy.value == pytest.approx(1 - rules["longer"].accuracy.value)
    assert rules["first"].accuracy.low < 0.5 < rules["first"].accuracy.high
    assert "has a box" not in rules, "a rule that never decides says nothing"
    assert found.auc.low > 0.6
    fair = shortcut_audit(formed_items(0.5), OPTIONS)
    assert fair.auc.low < 0.5 < fair.auc.high


# ------------------------------------------------------------------ the command


def run_audit(*arguments):
    return CliRunner().invoke(app, ["curate", "audit", *map(str, arguments)])


def test_it_works_at_every_stage(tmp_path):
    rng = np.random.default_rng(1)
    items, truth = made_items(40, rng, {3}, images=("images/a.png",))
    bench = hand_made(tmp_path / "stages", [])
    bench.items_path.unlink()
    nothing = run_audit(bench.directory)
    assert isinstance(nothing.exception, BonError)
    assert "bon curate draw --out" in str(nothing.exception)
    write_items(items, bench.items_path)
    (bench.directory / "images").mkdir()
    Image.new("RGB", (4, 4), "red").save(bench.directory / "images" / "a.png")

    early = run_audit(bench.directory)
    assert early.exit_code == 0, early.output
    assert "nobody has labelled an item" in early.output
    found = CurationAudit.model_validate_json(bench.audit_path.read_text())
    assert found.labels is None
    assert found == audit(open_workbench(bench.directory)), "the same whenever it is made"

    add(bench.annotations_path, *said_by(items, truth, ["<b>ann"], rng, 0))
    assert "Agreement: no item has two answers -> a second annotator" in write_audit(bench).missing
    add(bench.annotations_path, *said_by(items, truth, ["bob"], rng, 0.1))
    late = run_audit(bench.directory, "--json")
    labels = json.loads(late.output)["labels"]
    assert labels["answered"] == 40
    assert items[3].key in labels["contradicted"]
    page = bench.audit_path.with_suffix(".html").read_text()
    assert "&lt;b&gt;ann" in page
    assert "<b>ann" not in page
    assert "data:image/png;base64," in page
    assert items[3].responses[0] in page
    main = page.partition("<main")[2].partition("</main>")[0]
    assert "NaN" not in main
    assert "None" not in main


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
    assert "the annotator chose" in page
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
    """A folder with these items."""
    folder.mkdir()
    (folder / "recipe.yaml").write_text("runs: [../nowhere]\n")
    bench = open_workbench(folder)
    write_items(items, bench.items_path)
    return bench
