"""`bon curate draw` on a run: filters that count, items that are what the run holds, files."""

import json
import shutil
from collections import Counter
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bon.commands.main import app
from bon.core.errors import BonError
from bon.core.records import Question
from bon.curating.items import read_items
from bon.curating.judged_runs import begin, judged_runs
from bon.curating.labelling.annotations import Annotation, add
from bon.curating.pools import build_pools, signature_of, split_of
from bon.curating.propose import Proposal, propose
from bon.curating.workbench import open_workbench
from bon.storage.store import Store
from tests.running.conftest import change


def bench_with(run: Path, folder: Path, **settings: str):
    """A folder whose recipe has these settings instead."""
    bench = begin([run], folder)
    lines = [f"runs: [{run}]", "items: 40"]
    settings = {"seed": "0", **settings}
    keep = [line for line in lines if line.split(":")[0] not in settings]
    keep += [f"{name}: {value}" for name, value in settings.items()]
    bench.recipe_path.write_text("\n".join(keep))
    return open_workbench(folder)


def test_items_are_what_the_run_holds(judged, tmp_path):
    bench = bench_with(judged, tmp_path)
    done = CliRunner().invoke(app, ["curate", "draw", "--out", str(tmp_path)])
    assert done.exit_code == 0, done.output
    proposal, items = (
        Proposal.model_validate_json(bench.proposal_path.read_text()),
        read_items(bench.items_path),
    )
    assert f"{len(items)} of 40 items" in done.stdout
    assert 35 <= len(items) == proposal.items
    assert len({item.key for item in items}) == len({item.id for item in items}) == len(items)
    with Store(judged, readonly=True) as store:
        questions = {question.key: question for question in store.questions()}
        texts = {text for (text,) in store.query("SELECT text FROM candidates")}
    splits = {}
    for item in items:
        question = questions[item.question]
        assert set(item.responses) <= texts
        right = [answer == question.answer for answer in item.answers]
        assert (right.index(True), sum(right)) == (item.better, 1)
        assert question.text.strip() in item.prompt
        assert len(item.images) == len(question.images) > 0
        assert splits.setdefault(item.question, item.split) == item.split
        for image in item.images:
            assert (tmp_path / image).read_bytes()[:4] == b"\x89PNG"
    assert set(splits.values()) == {"public", "held-out"}
    assert proposal.sources == ({"run": str(judged), "policies": ["policy", "talker"]},)
    drawn = Counter(item.strategy for item in items)
    for part in proposal.strategies:
        assert drawn[part.strategy] == part.drawn <= part.available
    assert sum(1 / item.probability for item in items) > len(items)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.*")}
    propose(bench, quiet=True)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.*")} == before


def test_every_filter_counts_what_came_and_what_went_on(judged, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(judged, run)
    with Store(run, readonly=True) as store:
        images = {question.key: question.images for question in store.questions()}
        keys = sorted(images)
        data = dict(store.query("SELECT key, data FROM questions"))
    Path(images[keys[0]][0].path).unlink()
    there = "UPDATE questions SET data = json_set(data, ?, json(?)) WHERE key = ?"
    for name in ("text", "options", "images"):  # keys[2] is keys[1] again
        change(run, there, f"$.{name}", json.dumps(json.loads(data[keys[1]])[name]), keys[2])
    leaked = "UPDATE pairs SET data = json_set(data, '$.prompt', ?) WHERE active = 1"
    text = json.loads(data[keys[4]])
    change(run, leaked, "\n".join([text["text"], *text["options"]]))
    change(run, "UPDATE candidates SET finish = 'length' WHERE question = ?", keys[5])
    change(run, "UPDATE candidates SET outcome = 'unparsed' WHERE question = ?", keys[6])
    with judged_runs(bench_with(run, tmp_path / "bench")) as runs:
        found = build_pools(runs)
    assert [(one.before, one.after) for one in found.counts[:-1]] == [
        (24, 24),  # without a gold answer
        (24, 23),  # images
        (23, 22),  # twice
        (22, 21),  # in the reward benchmark
        (252, 252),  # without text
        (252, 240),  # not extracted
        (240, 228),  # cut off
    ]
    assert found.counts[-1].before == 21
    assert found.counts[-1].after == len(found.by_question) <= 19
    assert not {keys[0], *keys[4:7]} & set(found.by_question)


def test_copies_of_a_question_are_in_one_split():
    one = Question("k1", "i", "d", "What is <image 1>?", ("x", "y"), "A")
    other = Question("k2", "j", "e", "What is  it <image 1> ?", ("x", "y"), "A")
    same = Question("k3", "j", "e", "what is <image 1>", ("x", "y"), "B")
    splits = [split_of(signature_of(one), seed, 0.5) for seed in range(64)]
    assert [split_of(signature_of(same), seed, 0.5) for seed in range(64)] == splits
    assert [split_of(signature_of(other), seed, 0.5) for seed in range(64)] != splits
    assert 16 < splits.count("public") < 48
    assert {split_of(signature_of(one), seed, 0.0) for seed in range(9)} == {"public"}


def test_two_runs_that_ask_the_same_make_one_pool(judged, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(judged, copy)
    both = bench_with(judged, tmp_path / "both", runs=f"[{judged}, {copy}]")
    one = bench_with(judged, tmp_path / "one")
    with judged_runs(both) as runs, judged_runs(one) as alone:
        assert build_pools(runs).by_question == build_pools(alone).by_question


def test_mistakes_are_one_line(judged, tmp_path):
    with pytest.raises(BonError, match="no run in"):
        propose(bench_with(judged, tmp_path / "a", runs="[../nowhere]"), quiet=True)
    run = shutil.copytree(judged, tmp_path / "run")
    bench = bench_with(run, tmp_path / "bench")
    change(run, "UPDATE questions SET data = json_set(data, '$.answer', json('null'))")
    with pytest.raises(BonError, match="questions with a gold answer 24 to 0"):
        propose(bench, quiet=True)
    with pytest.raises(BonError, match=r"no recipe\.yaml"):
        open_workbench(tmp_path / "e")


def test_what_people_said_is_not_lost(judged, tmp_path):
    bench = bench_with(judged, tmp_path)
    propose(bench, quiet=True)
    (item, *_) = [one for one in bench.items if one.probability < 0.5]
    add(bench.annotations_path, Annotation(item.key, "ann", "0", (0, 1)))
    propose(bench, quiet=True)  # the same items
    text = bench.recipe_path.read_text()
    for seed in range(1, 9):
        bench.recipe_path.write_text(text.replace("seed: 0", f"seed: {seed}"))
        before = bench.items_path.read_bytes()
        try:
            propose(open_workbench(tmp_path), quiet=True)
        except BonError as error:
            said = str(error)
            break
    assert "1 annotated items would no longer be in" in said
    assert bench.items_path.read_bytes() == before
