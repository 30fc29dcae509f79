"""The audit: planted mislabels, errors and shortcuts are found; it works at every stage."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from bon.analysis.results import Options
from bon.commands.main import app
from bon.core.errors import BonError
from bon.curating.audit import CurationAudit, audit, shortcuts
from bon.curating.items import write_items
from bon.curating.labelling.annotations import Annotation, add
from bon.curating.workbench import open_workbench
from tests.curating.labelled_items import curated, formed_items, made_items, said_by

OPTIONS = Options(draws=200)


def test_a_shortcut_is_seen_and_none_invented():
    rules = {one.rule: one for one in shortcuts(formed_items(0.9), OPTIONS)}
    assert rules["longer"].accuracy.value == pytest.approx(0.9, abs=0.08)
    assert rules["longer"].accuracy.low > 0.6
    assert rules["shorter"].accuracy.value == pytest.approx(1 - rules["longer"].accuracy.value)
    assert rules["first"].accuracy.low < 0.5 < rules["first"].accuracy.high
    assert "markdown" not in rules, "a rule that never decides says nothing"
    fair = {one.rule: one.accuracy for one in shortcuts(formed_items(0.5), OPTIONS)}
    assert fair["longer"].low < 0.5 < fair["longer"].high
    starred = [curated(n, better=n % 2, responses=(("a", "**a**")[n % 2], "a")) for n in range(30)]
    (markdown,) = (one for one in shortcuts(starred, OPTIONS) if one.rule == "markdown")
    assert (markdown.says, markdown.accuracy.value) == (0.5, 0.25)


# ------------------------------------------------------------------ the command


def run_audit(*arguments):
    return CliRunner().invoke(app, ["curate", "audit", *map(str, arguments)])


def test_it_works_at_every_stage(tmp_path):
    rng = np.random.default_rng(1)
    items, truth = made_items(40, rng, {3})
    bench = hand_made(tmp_path / "stages", [])
    bench.items_path.unlink()
    nothing = run_audit(bench.directory)
    assert isinstance(nothing.exception, BonError)
    assert "bon curate draw --out" in str(nothing.exception)
    write_items(items, bench.items_path)

    early = run_audit(bench.directory)
    assert early.exit_code == 0, early.output
    assert "nobody has labelled an item" in early.output
    found = CurationAudit.model_validate_json(bench.audit_path.read_text())
    assert found.answered == 0
    assert found == audit(open_workbench(bench.directory)), "the same whenever it is made"

    rows = said_by(items, truth, ["ann", "bob"], rng, 0.1)
    add(bench.annotations_path, *rows)
    late = json.loads(run_audit(bench.directory, "--json").output)
    ann, bob = ([row.choice for row in rows if row.annotator == name] for name in ("ann", "bob"))
    equal = np.mean([one == other for one, other in zip(ann, bob, strict=True)])
    agree = f"Annotators agree on {100 * equal:.1f}% "
    assert equal < 1
    assert any(
        line.startswith(agree) and "of 40 items; Krippendorff's alpha is ." in line
        for line in late["findings"]
    )
    assert late["answered"] == 40
    assert items[3].key in late["contradicted"]
    error = late["label_error"]
    assert error["low"] < error["value"] == len(late["contradicted"]) / error["n"] < error["high"]
    assert any("items have no consensus" in line for line in late["missing"])

    differ = [items[n] for n in range(40) if ann[n] != bob[n]]
    add(bench.annotations_path, *(Annotation(item.key, "third", "0", (0, 1)) for item in differ))
    adjudicated = json.loads(run_audit(bench.directory, "--json").output)
    assert adjudicated["findings"][1] == late["findings"][1], "whoever adjudicates does not count"


def test_two_items_of_one_annotator_are_no_label_error(tmp_path):
    items, truth = made_items(40, np.random.default_rng(1))
    bench = hand_made(tmp_path / "few", items)
    rng = np.random.default_rng(1)
    add(bench.annotations_path, *said_by(items[:2], 1 - truth[:2], ["ann"], rng, 0))
    done = run_audit(bench.directory)
    assert "a consensus on 2 of 40 items: too few for a label error" in done.output
    assert "100" not in done.output


@pytest.mark.parametrize(("chance", "blocked"), [(0.95, True), (0.5, False)])
def test_a_shortcut_blocks_the_freeze(tmp_path, chance, blocked):
    bench = hand_made(tmp_path / "formed", formed_items(chance))
    found = audit(bench)
    assert bool(found.blocks) == blocked
    if blocked:
        assert "“longer” is right on" in found.blocks[0]
        assert "Stops the freeze:" in run_audit(bench.directory).output


def hand_made(folder, items):
    """A folder with these items."""
    folder.mkdir()
    (folder / "recipe.yaml").write_text("runs: [../nowhere]\n")
    bench = open_workbench(folder)
    write_items(items, bench.items_path)
    return bench
