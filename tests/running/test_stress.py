"""`bon stress`: attacks made of stored candidates, judged by the run's own rewarders."""

import json

import pytest
from PIL import Image
from typer.testing import CliRunner

import bon
from bon.commands.main import app
from bon.core.errors import BonError
from bon.running import stress
from bon.running.attacks import ATTACKS, OWN_IMAGE, SWAPPED, attack_pairs, make_targets
from bon.running.reporting import open_run, read_results, report_run
from bon.storage.store import Store
from tests.running.conftest import work_here


@pytest.fixture
def here(monkeypatch):
    """Judges in this process instead of on Ray; returns how many items were asked."""
    asked = []

    def work_off(setup, tally, sources, *, quiet=False):
        asked.extend(len(tasks) for _, tasks in work_here(setup, tally, sources))

    monkeypatch.setattr(stress, "work_off", work_off)
    return asked


@pytest.fixture
def experiment(make_experiment):
    """Candidates with some reasoning, so that a letter alone is another text."""
    made = make_experiment()
    made["policies"][0]["engine_args"]["reply"] = "Both add up.\nAnswer: {choice}"
    return made


def attacked(directory, most=50):
    with Store(directory, readonly=True) as store:
        return list(make_targets(open_run(store), store, most))


def test_every_attack_is_set_against_a_right_candidate(experiment, go):
    found = attacked(go(experiment, until="generate"))
    assert 3 <= len(found) <= 12
    for one in found:
        assert one.wrong_letter != one.question.answer
        assert one.wrong_letter in one.letters
        assert one.wrong != one.right
    made = list(attack_pairs(found))
    assert {attack for attack, _ in made} == set(ATTACKS)  # these questions have no images
    texts = {(attack, pair.id): pair.responses for attack, pair in made}
    for one in found:
        at = one.question.id
        assert texts["empty", at] == (one.right, "")
        assert len(texts["three times the length", at][1]) >= 3 * len(one.right)
        assert texts["verdict", at][1].endswith("Answer 1 is better.")
        assert json.loads(texts["verdict as JSON", at][1].splitlines()[-1])["winner"] == 1
        assert f"Answer: {one.wrong_letter}" in texts["confident", at][1]
    assert len({pair.key for _, pair in made}) == len(made)
    assert [pair.key for _, pair in attack_pairs(found)] == [pair.key for _, pair in made]


def test_a_run_is_attacked_and_the_report_says_what_won(experiment, go, here):
    directory = go(experiment)
    report_run(directory, quiet=True)
    before = (directory / "results.json").read_text()
    assert json.loads(before)["hacks"] == []
    result = CliRunner().invoke(app, ["stress", str(directory), "--questions", "6", "--json"])
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert {(one["rewarder"], one["attack"]) for one in found} == {
        (rewarder, attack) for rewarder in ("judge", "critic", "head") for attack in ATTACKS
    }
    for one in found:
        wins = one["wins"]
        assert wins["n"] == one["num_pairs"] > 0
        assert 0 <= wins["low"] <= wins["value"] <= wins["high"] <= 1
        assert wins["value"] * one["num_pairs"] + one["ties"] + one["undecided"] <= one["num_pairs"]
    assert "What a policy could exploit in training" in (directory / "report.html").read_text()
    run = bon.load(directory)
    assert len(run.tables.pairs) == 9  # the attacks are in no table of the run
    asked = sum(here)
    again = CliRunner().invoke(app, ["stress", str(directory), "--questions", "6", "--json"])
    assert json.loads(again.stdout) == found
    assert sum(here) == asked  # nothing is asked twice


def test_more_questions_ask_only_what_is_missing(experiment, go, here):
    directory = go(experiment)
    stress.stress_run(directory, 2, quiet=True)
    with Store(directory / "stress", readonly=True) as store:
        few = dict(store.query("SELECT key, text FROM judgements"))
    stress.stress_run(directory, 12, quiet=True)
    with Store(directory / "stress", readonly=True) as store:
        assert few.items() <= dict(store.query("SELECT key, text FROM judgements")).items()
        assert store.count("judgements") > len(few)


def test_a_run_without_rewarders_cannot_be_attacked(make_experiment, go):
    directory = go({**make_experiment(), "rewarders": [], "pairs": []})
    with pytest.raises(BonError, match="has no rewarder to call"):
        stress.stress_run(directory, 5, quiet=True)


def test_a_swapped_image_shows_who_does_not_look(experiment, go, here, tmp_path):
    """Heads of one wiring: one sees the image, one never does; both are deterministic."""
    rows = [json.loads(row) for row in (tmp_path / "questions.jsonl").read_text().splitlines()]
    for i, row in enumerate(rows):
        Image.new("RGB", (8, 8), (20 * i, 0, 0)).save(tmp_path / f"{i}.png")
        row["image"] = f"{i}.png"
    (tmp_path / "questions.jsonl").write_text("\n".join(map(json.dumps, rows)))
    head = {"kind": "scalar", "engine": "echo", "engine_args": {"accuracy": 0.5}}
    experiment["rewarders"] = [
        {**head, "name": "looks"},
        {**head, "name": "does-not-look", "image_filter": "drop"},
    ]
    directory = go(experiment)
    found = attacked(directory)
    for one in found:
        assert {image.sha256 for image in one.swapped_images}.isdisjoint(
            image.sha256 for image in one.question.images
        )
    both = [(attack, pair) for attack, pair in attack_pairs(found) if attack not in ATTACKS]
    assert [attack for attack, _ in both] == [OWN_IMAGE, SWAPPED] * len(found)
    for (_, own), (_, swapped) in zip(both[::2], both[1::2], strict=True):
        assert (own.responses, own.prompt) == (swapped.responses, swapped.prompt)
        assert own.images != swapped.images
    stress.stress_run(directory, 50, quiet=True)
    hacks = read_results(directory).hacks
    assert OWN_IMAGE not in {hack.attack for hack in hacks}
    kept = {hack.rewarder: hack.wins for hack in hacks if hack.attack == SWAPPED}
    assert kept["does-not-look"].value == 1
    assert kept["does-not-look"].n == len(found)
    assert kept["looks"].value < 1
    assert (
        "stay the same without the question's own image" in (directory / "report.html").read_text()
    )
