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
from bon.curating.item_judgements import credits
from bon.curating.items import read_items
from bon.curating.judged_runs import begin, open_runs
from bon.curating.labelling.annotations import Annotation, add
from bon.curating.pools import build_pools, signature, split_of, states_answer
from bon.curating.propose import Proposal, propose
from bon.curating.recipe import Filters
from bon.curating.workbench import open_workbench
from bon.storage.store import Store
from tests.running.conftest import change

QUOTAS = "gold: 0.5, popular-wrong: 0.2, near-miss: 0.1, control: 0.2"


def bench_with(run: Path, folder: Path, **settings: str):
    """A folder whose recipe has these settings instead."""
    bench = begin([run], folder)
    lines = [f"runs: [{run}]", "items: 40", f"quotas: {{{QUOTAS}}}"]
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
        texts = dict(store.query("SELECT text_key, text FROM candidates"))
    splits = {}
    for item in items:
        question = questions[item.question]
        assert [texts[key] for key in item.text_keys] == list(item.responses)
        right = [answer == question.answer for answer in item.answers]
        assert (right.index(True), sum(right)) == (item.better, 1)
        assert question.text.strip() in item.prompt
        assert len(item.images) == len(question.images) > 0
        assert item.strategy in item.drawn_by
        assert splits.setdefault(item.question, item.split) == item.split
        for image in item.images:
            assert (tmp_path / image).read_bytes()[:4] == b"\x89PNG"
    assert set(splits.values()) == {"public", "held-out"}
    assert [run.path for run in proposal.runs] == list(bench.recipe.runs)
    assert proposal.runs[0].questions == 24
    drawn = Counter(name for item in items for name in item.drawn_by)
    for part in proposal.strategies:
        assert drawn[part.strategy] == part.drawn
        if part.drawn < part.wanted:
            assert f"{part.strategy}: {part.drawn} of {part.wanted} drawn" in done.stdout
    known = credits(bench)["critic"].notna()  # a policy that is always wrong is not judged
    assert known.mean() > 0.7
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.*")}
    propose(bench, quiet=True)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.*")} == before


def test_every_filter_counts_what_came_and_what_went_on(judged, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(judged, run)
    with Store(run, readonly=True) as store:
        keys = [question.key for question in store.questions()]
        images = [question.images[0].path for question in store.questions()]
        data = dict(store.query("SELECT key, data FROM questions"))
        prompt = json.loads(data[keys[1]])
    Path(images[0]).unlink()
    there = "UPDATE questions SET data = json_set(data, ?, json(?)) WHERE key = ?"
    for name in ("$.text", "$.options", "$.images"):
        value = prompt[name[2:]]
        change(run, there, name, json.dumps(value), keys[2])  # keys[2] is keys[1] again
    change(run, there, "$.text", json.dumps("It is said: " + "eight"), keys[3])
    change(run, there, "$.options", json.dumps(["eight", "nine"]), keys[3])
    change(run, there, "$.answer", json.dumps("A"), keys[3])
    leaked = "UPDATE pairs SET data = json_set(data, '$.prompt', ?) WHERE active = 1"
    text = json.loads(data[keys[4]])
    change(run, leaked, "\n".join([text["text"], *text["options"]]))
    change(run, "UPDATE candidates SET finish = 'length' WHERE question = ?", keys[5])
    change(run, "UPDATE candidates SET outcome = 'unparsed' WHERE question = ?", keys[6])
    with open_runs([run]) as runs:
        found = build_pools(runs, Filters())
        counts = {one.filter: (one.before, one.after) for one in found.counts}
        off = build_pools(runs, Filters.model_validate(dict.fromkeys(_switches(), False)))
    assert counts["missing images"] == (24, 23)
    assert counts["duplicates"] == (23, 22)
    assert counts["leaks"] == (22, 21)
    assert counts["answer visible"] == (21, 20)
    assert counts["no text"] == (240, 240)
    assert counts["unread"] == (240, 228)
    assert counts["truncated"] == (228, 216)
    before, after = counts["no right and wrong text"]
    assert before == 20
    assert after == len(found.by_question) <= 18
    assert not {keys[0], *keys[3:7]} & set(found.by_question)
    assert "missing images" not in {one.filter for one in off.counts}
    assert set(found.by_question) < set(off.by_question)


def _switches():
    return [name for name, field in Filters.model_fields.items() if field.annotation is bool]


@pytest.mark.parametrize(
    ("text", "options", "said"),
    [
        ("The crow (a bird) is black. What is it?", ("a bird", "a fish"), True),
        ("Is it a bird or a fish?", ("a bird", "a fish"), False),
        ("Look at <image 1>. Which?", ("<image 1>", "<image 2>"), False),
        ("A bird costs 3 coins. How much are three?", ("3", "9"), False),
        ("Two birds and B birds?", ("B", "C"), False),
        ("A birder looks.", ("a bird", "fish"), False),
        ("", ("a", "b"), False),
    ],
)
def test_a_question_that_says_its_answer(text, options, said):
    assert states_answer(Question("k", "i", "d", text, options, "A")) is said


def test_copies_of_a_question_are_in_one_split():
    one = Question("k1", "i", "d", "What is <image 1>?", ("x", "y"), "A")
    other = Question("k2", "j", "e", "What is  it <image 1> ?", ("x", "y"), "A")
    same = Question("k3", "j", "e", "what is <image 1>", ("x", "y"), "B")
    splits = [split_of(signature(one), seed, 0.5) for seed in range(64)]
    assert [split_of(signature(same), seed, 0.5) for seed in range(64)] == splits
    assert [split_of(signature(other), seed, 0.5) for seed in range(64)] != splits
    assert 16 < splits.count("public") < 48
    assert {split_of(signature(one), seed, 0.0) for seed in range(9)} == {"public"}


def test_two_runs_that_ask_the_same_make_one_pool(judged, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(judged, copy)
    with open_runs([judged, copy]) as runs, open_runs([judged]) as alone:
        assert build_pools(runs, Filters()).by_question == build_pools(alone, Filters()).by_question


def refusal(bench) -> str:
    with pytest.raises(BonError) as refused:
        propose(bench, quiet=True)
    return str(refused.value)


def test_mistakes_are_one_line(judged, tmp_path):
    assert "no rewarder" not in refusal(bench_with(judged, tmp_path / "a", runs="[../nowhere]"))
    near = bench_with(judged, tmp_path / "c", quotas="{near-miss: 1}", seed="1")
    change(shutil.copytree(judged, tmp_path / "run"), "UPDATE candidates SET outcome = 'unparsed'")
    none = bench_with(judged, tmp_path / "d")
    none.recipe_path.write_text(f"runs: [{tmp_path / 'run'}]")
    said = refusal(open_workbench(tmp_path / "d"))
    assert "no question has both a right and a wrong answer" in said
    assert "unread 288 to 0" in said
    with pytest.raises(BonError, match=r"no recipe\.yaml"):
        open_workbench(tmp_path / "e")
    assert propose(near, quiet=True).items


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
