"""`bon doctor RUN`: every damage is named, mended under a backup, and what it cost comes back."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bon.commands.main import app
from bon.core.errors import BonError, ExitCode
from bon.running.repair import check_run, repair_run
from bon.running.status import run_status
from bon.storage.store import Store

from .conftest import change

SIDE = {"run.sqlite-wal", "run.sqlite-shm"}  # SQLite's own, there while a reader is


def doctor(*arguments: object):
    return CliRunner().invoke(app, ["doctor", *map(str, arguments)])


def faults(directory: Path) -> dict[str, int]:
    return {check.name: check.faults for check in check_run(directory) if check.faults}


def tables(directory: Path):
    """Every row but what depends on the clock."""
    with Store(directory, readonly=True) as store:
        return (
            store.query("SELECT key, text, answer, outcome FROM candidates ORDER BY key"),
            store.query("SELECT key, outcome, score, text FROM judgements ORDER BY key"),
            [question.key for question in store.questions()],
            [pair.key for _, pair in store.pairs()],
        )


def key(directory: Path, table: str, where: str = "1") -> str:
    with Store(directory, readonly=True) as store:
        return store.query(f"SELECT MIN(key) FROM {table} WHERE {where}")[0][0]


def test_a_sound_run_is_left_alone(make_experiment, go):
    directory = go(make_experiment())
    before = {path.name for path in directory.iterdir()} - SIDE
    found = doctor(directory, "--repair")
    assert found.exit_code == 0
    assert "damaged" not in found.output
    assert {path.name for path in directory.iterdir()} - SIDE == before
    assert not list(directory.glob("backup-*"))


DAMAGE = {
    "settings": "UPDATE meta SET value = '{torn' WHERE key = 'experiment'",
    "question": "UPDATE questions SET data = '{\"key\": 1}' WHERE seq = 1",
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_named_mended_and_computed_again(make_experiment, go, name):
    experiment = make_experiment(judging={"judge_unanimous": True})
    directory = go(experiment)
    calm = tables(directory)
    change(directory, DAMAGE[name])
    assert "data" in faults(directory)
    found = doctor(directory)
    assert found.exit_code == ExitCode.INCOMPLETE
    assert "damaged  data" in found.output
    assert "remedy: --repair" in found.output
    mended = doctor(directory, "--repair")
    assert mended.exit_code == 0, mended.output
    (backup,) = directory.glob("backup-*")
    assert (backup / "run.sqlite").exists()
    assert faults(directory) == {}
    go(experiment)
    assert faults(directory) == {}
    assert tables(directory) == calm


def test_impossible_values_are_filed_as_what_they_are(make_experiment, go):
    directory = go(make_experiment())
    with Store(directory, readonly=True) as store:
        keys = [k for (k,) in store.query("SELECT key FROM judgements WHERE rewarder = 'head'")]
    values = (float("inf"), "seven")
    for one, value in zip(keys, values, strict=False):
        change(directory, "UPDATE judgements SET score = ? WHERE key = ?", value, one)
    change(directory, "UPDATE judgements SET outcome = 'win' WHERE key = ?", keys[2])
    candidate = key(directory, "candidates")
    change(directory, "UPDATE candidates SET logprob = ? WHERE key = ?", float("-inf"), candidate)
    assert faults(directory) == {"values": 4}
    repair_run(directory)
    assert faults(directory) == {}
    with Store(directory, readonly=True) as store:
        found = {
            k: (outcome, score)
            for k, outcome, score in store.query("SELECT key, outcome, score FROM judgements")
        }
    assert [found[k] for k in keys[:3]] == [
        ("unparsed", None),
        ("error", None),
        ("error", None),
    ]


def test_images_come_back_from_the_data(make_experiment, go, tmp_path):
    from PIL import Image

    experiment = make_experiment(questions=4, pairs=3)
    rows = [json.loads(x) for x in (tmp_path / "questions.jsonl").read_text().splitlines()]
    for place, row in enumerate(rows):
        Image.new("RGB", (4, 4), (place, 0, 0)).save(tmp_path / f"{place}.png")
        row["image"] = f"{place}.png"
    (tmp_path / "questions.jsonl").write_text("\n".join(map(json.dumps, rows)))
    directory = go(experiment)
    one, two, *_ = sorted(path for path in (directory / "images").rglob("*") if path.is_file())
    one.unlink()
    two.write_bytes(b"another")
    assert faults(directory) == {"images": 2}
    repair_run(directory)
    go(experiment)
    assert faults(directory) == {}


def test_a_torn_database_is_saved_row_by_row(make_experiment, go):
    experiment = make_experiment(questions=150, pairs=60)
    directory = go(experiment)
    calm = tables(directory)
    path = directory / "run.sqlite"
    size = path.stat().st_size
    with path.open("r+b") as file:  # one page in the middle of the judgements
        file.seek(size * 2 // 3 // 4096 * 4096)
        file.write(b"\xff" * 4096)
    assert set(faults(directory)) == {"database"}
    found = doctor(directory, "--repair")
    assert found.exit_code == 0, found.output
    assert faults(directory) == {}
    left = tables(directory)
    assert left[2:] == calm[2:]
    assert 0.7 * len(calm[1]) < len(left[1]) <= len(calm[1])
    assert not run_status(directory)["complete"] or left == calm
    go(experiment)
    assert tables(directory) == calm


@pytest.mark.parametrize(
    ("content", "said"), [(b"", "is empty (0 bytes)"), (b"nothing " * 999, "is not a database")]
)
def test_what_is_no_database_is_said_in_one_line(tmp_path, content, said):
    (tmp_path / "run.sqlite").write_bytes(content)
    for look in (check_run, repair_run):
        with pytest.raises(BonError, match="->") as error:
            look(tmp_path)
        assert said in str(error.value)
    assert (tmp_path / "run.sqlite").read_bytes() == content
