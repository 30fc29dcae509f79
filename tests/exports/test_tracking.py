"""Weights & Biases: the results, and how a run goes while it goes; tested where it is installed."""

import json
import struct
import subprocess
import sys
from collections.abc import Iterator

import pytest

from bon.analysis.results import Results
from bon.core.errors import BonError
from bon.exports import export_run
from bon.exports.tracking import result_numbers, tracking
from bon.running import progress
from bon.running.progress import Live
from tests.running.conftest import go_in


@pytest.fixture(scope="module")
def numbers(run) -> dict[tuple[str, int], float]:
    results = Results.model_validate_json((run / "results.json").read_text())
    return {(name, step): value for name, value, step in result_numbers(results)}


def test_numbers_are_those_of_the_results(run, numbers):
    results = Results.model_validate_json((run / "results.json").read_text())
    for b in results.best_of_n:
        if b.headline:
            for point in b.curve:
                assert numbers[f"best_of_n/policy/{b.rewarder}", point.n] == point.accuracy.value
    for found in results.benchmarks:
        name = f"benchmark/{found.benchmark}/{found.rewarder}/macro"
        assert numbers.get((name, 0)) == found.macro.value


def same(found: dict[tuple[str, int], float], numbers: dict[tuple[str, int], float]) -> None:
    assert set(found) == set(numbers)
    for key, value in numbers.items():
        assert found[key] == pytest.approx(value)


def test_wandb_offline(run, numbers, tmp_path, monkeypatch):
    wandb = pytest.importorskip("wandb", reason="pip install 'bon[wandb]'")
    from wandb.proto import wandb_internal_pb2

    monkeypatch.setenv("WANDB_MODE", "offline")
    export_run(run, tmp_path, "wandb")
    wandb.teardown()  # else its own process writes when this one ends
    (file,) = tmp_path.rglob("*.wandb")
    found: dict[tuple[str, int], float] = {}
    for data in log_records(file.read_bytes()):
        record = wandb_internal_pb2.Record()
        record.ParseFromString(data)
        items = {
            ".".join(item.nested_key) or item.key: json.loads(item.value_json)
            for item in record.history.item
        }
        for name, value in items.items():
            if "/" in name:
                found[name, items["n"]] = value
    same(found, numbers)


def log_records(data: bytes) -> Iterator[bytes]:
    """Records of a W&B file: a LevelDB log (blocks of 32 KiB) behind a header of seven bytes."""
    at, parts = 7, b""
    while at + 7 <= len(data):
        if 32768 - at % 32768 < 7:
            at += 32768 - at % 32768
            continue
        size, kind = struct.unpack("<HB", data[at + 4 : at + 7])
        parts += data[at + 7 : at + 7 + size]
        at += 7 + size
        if kind in (1, 4):  # whole, or the last part
            yield parts
            parts = b""


def test_without_its_package_it_says_what_to_install(run, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(BonError, match=r"pip install 'bon\[wandb\]'"):
        export_run(run, tmp_path, "wandb")
    with pytest.raises(BonError, match="needs the package"), tracking(["wandb"], tmp_path, {}):
        raise AssertionError("it began")


def test_a_tracker_that_was_removed_is_one_line(tmp_path):
    message = "no tracker 'tensorboard' -> use --track wandb"
    with pytest.raises(BonError, match=message), tracking(["tensorboard"], tmp_path, {}):
        raise AssertionError("it began")


def test_wandb_is_not_imported_before_it_is_asked_for():
    code = "import sys, bon.commands.main, bon.exports, bon.exports.tracking; "
    code += "print('wandb' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "False", done.stderr


class Heard:
    """A watcher that remembers."""

    def __init__(self) -> None:
        self.said: list[tuple[dict[str, float], int, str]] = []

    def scalars(self, values, step, axis):
        self.said.append((dict(values), step, axis))


def test_a_run_tells_how_it_goes(run, tmp_path, monkeypatch, make_experiment):
    from bon.running.tally import Tally
    from tests.running import conftest

    monkeypatch.setattr(progress, "WATCHER_SECONDS", 0)
    heard = Heard()
    monkeypatch.setattr(conftest, "Tally", lambda *args: Tally(*args, Live([heard])))
    go_in(tmp_path)(make_experiment(4, 3))
    assert heard.said
    steps = [step for _, step, _ in heard.said]
    assert steps == sorted(steps)
    values, step, axis = heard.said[-1]
    assert axis == "rows"
    assert sum(v for k, v in values.items() if k.startswith("running/rows/")) == step
    assert values["running/rows/policy"] == 16
    assert values["running/error/policy"] == 0
