"""`bon curate draw --from`: items of existing preference sets, labelled and frozen like others."""

import json
import subprocess

import pytest
from typer.testing import CliRunner

import bon
from bon.commands.main import app
from bon.curating.audit import write_audit
from bon.curating.freeze import Freezing
from bon.curating.labelling.annotations import Annotation, add
from bon.curating.workbench import open_workbench
from bon.miniature.data import write
from tests.conftest import echo_experiment
from tests.running.conftest import go_in


@pytest.fixture
def sets(tmp_path):
    """A benchmark in its published form and a file of pairs."""
    write(tmp_path, num_questions=4, num_pairs=30)
    rows = [
        {"id": f"p{n}", "prompt": f"What is {n}?", "chosen": f"It is {n}.", "rejected": "Nothing."}
        for n in range(20)
    ]
    (tmp_path / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return [f"vl_rewardbench:{tmp_path / 'pairs.parquet'}", str(tmp_path / "pairs.jsonl")]


def curate(*arguments):
    return CliRunner().invoke(app, ["curate", *map(str, arguments)])


def drawn(out, sets, *more):
    asked = [value for name in sets for value in ("--from", name)]
    return curate("draw", "--out", out, *asked, *more)


def test_items_are_pairs_of_the_sets(sets, tmp_path):
    out = tmp_path / "mine"
    done = drawn(out, sets, "--items", 25, "--held-out", 0.2)
    assert done.exit_code == 0, done.output
    assert "25 of 25 items" in done.output
    bench = open_workbench(out)
    items = {item.id: item for item in bench.items}
    assert {item.strategy for item in items.values()} == {"vl_rewardbench", "preference"}
    assert {item.probability for item in items.values()} == {25 / 50}
    for item in items.values():
        if item.dataset == "preference":
            number = item.prompt.split()[-1].strip("?")
            assert item.responses[item.better] == f"It is {number}."
        else:
            assert len(item.images) == 1
    before = bench.items_path.read_bytes()
    assert curate("draw", "--out", out).exit_code == 0
    assert bench.items_path.read_bytes() == before
    assert "already exists" in str(drawn(out, sets).exception)


def test_a_pair_of_two_sets_is_drawn_once(sets, tmp_path):
    done = drawn(tmp_path / "mine", [sets[1], sets[1]], "--items", 40)
    assert "20 of 40 items" in done.output
    assert json.loads((tmp_path / "mine" / "proposal.json").read_text())["filters"] == [
        {"filter": "usable pairs that occur once", "before": 40, "after": 20}
    ]


def test_they_are_labelled_audited_frozen_and_judged(sets, tmp_path):
    out = tmp_path / "mine"
    assert drawn(out, sets, "--items", 30, "--held-out", 0).exit_code == 0
    bench = open_workbench(out)
    wrong, *_ = bench.items
    for item in bench.items:
        choice = item.wrong if item is wrong else item.better
        add(bench.annotations_path, Annotation(item.key, "ann", str(choice), (0, 1)))
    audit = curate("audit", out)
    assert audit.exit_code == 0, audit.output
    found = write_audit(bench)
    assert found.contradicted == (wrong.key,)
    done = Freezing(bench, "1", private=True, anyway="it is a test").write()
    assert (done.public, sum(done.left_out.values())) == (29, 1)
    subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=done.folder, check=True)
    experiment = {**echo_experiment(), "policies": [], "name": "verdicts"}
    del experiment["questions"]
    experiment["pairs"] = [{"benchmark": "preference", "path": str(done.folder / "pairs.parquet")}]
    results = bon.load(go_in(tmp_path)(experiment, out="again")).analyse(draws=200)
    assert results.benchmarks[0].natural.value is not None
    assert {group.name for group in results.benchmarks[0].groups} == {
        "vl_rewardbench",
        "preference",
    }


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("vl_rewardbenhc", "did you mean"),
        ("mmmu_pro", "has no preference pairs"),
        ("vl_rewardbench:nowhere.parquet", "there is no file nowhere.parquet"),
    ],
)
def test_what_is_no_set_is_refused(tmp_path, name, said):
    done = drawn(tmp_path / "mine", [name])
    assert said in str(done.exception)
    assert not (tmp_path / "mine").exists()


def test_nothing_to_draw_from(tmp_path):
    assert "name a RUN, or --from a SET" in str(curate("draw", "--out", tmp_path / "x").exception)
