"""Weights & Biases: the results of a run; tested where it is installed."""

import json
import struct
import subprocess
import sys
from collections.abc import Iterator

import pytest

from bon.analysis.results import Results
from bon.core.errors import BonError
from bon.exports import export_run
from bon.exports.tracking import result_numbers


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


def test_wandb_is_not_imported_before_it_is_asked_for():
    code = "import sys, bon.commands.main, bon.exports, bon.exports.tracking; "
    code += "print('wandb' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "False", done.stderr
