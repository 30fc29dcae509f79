"""`bon doctor RUN`: a torn database is saved row by row, and the next run computes what is lost."""

import pytest
from typer.testing import CliRunner

from bon.commands.main import app
from bon.core.errors import BonError, ExitCode
from bon.running.status import run_status
from bon.storage.database import damage_of
from bon.storage.store import Store

from .conftest import change

SIDE = {"run.sqlite-wal", "run.sqlite-shm"}  # SQLite's own, there while a reader is


def doctor(*arguments: object):
    return CliRunner().invoke(app, ["doctor", *map(str, arguments)])


def tables(directory):
    """Every row but what depends on the clock."""
    with Store(directory, readonly=True) as store:
        return (
            store.query("SELECT key, text, answer, outcome FROM candidates ORDER BY key"),
            store.query("SELECT key, outcome, score, text FROM judgements ORDER BY key"),
            [question.key for question in store.questions()],
            [pair.key for _, pair in store.pairs()],
        )


def test_a_sound_run_is_left_alone(make_experiment, go):
    directory = go(make_experiment())
    before = {path.name for path in directory.iterdir()} - SIDE
    sound = doctor(directory, "--repair")
    assert sound.exit_code == 0
    assert "damage: none" in sound.output
    assert {path.name for path in directory.iterdir()} - SIDE == before


def test_a_torn_database_is_saved_row_by_row(make_experiment, go):
    experiment = make_experiment(questions=150, pairs=60)
    directory = go(experiment)
    calm = tables(directory)
    path = directory / "run.sqlite"
    with path.open("r+b") as file:  # one page in the middle of the judgements
        file.seek(path.stat().st_size * 2 // 3 // 4096 * 4096)
        file.write(b"\xff" * 4096)
    assert doctor(directory).exit_code == ExitCode.INCOMPLETE
    saved = doctor(directory, "--repair")
    assert saved.exit_code == 0, saved.output
    assert damage_of(directory) == ""
    (backup,) = directory.glob("backup-*")
    assert (backup / "run.sqlite").exists()
    left = tables(directory)
    assert left[2:] == calm[2:]
    assert 0.7 * len(calm[1]) < len(left[1]) <= len(calm[1])
    assert not run_status(directory)["complete"] or left == calm
    go(experiment)
    assert tables(directory) == calm


def test_a_setting_that_cannot_be_read_is_named(make_experiment, go):
    directory = go(make_experiment())
    change(directory, "UPDATE meta SET value = '{torn' WHERE key = 'experiment'")
    with pytest.raises(BonError, match="'experiment' cannot be read"):
        run_status(directory)


@pytest.mark.parametrize(
    ("content", "message"), [(b"", "is empty (0 bytes)"), (b"nothing " * 999, "is not a database")]
)
def test_what_is_no_database_is_refused_in_one_line(tmp_path, content, message):
    (tmp_path / "run.sqlite").write_bytes(content)
    for look in (run_status, damage_of):
        with pytest.raises(BonError, match="->") as error:
            look(tmp_path)
        assert message in str(error.value)
    assert (tmp_path / "run.sqlite").read_bytes() == content
