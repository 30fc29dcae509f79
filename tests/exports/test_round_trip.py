"""Out and in again: the same numbers."""

import json
from pathlib import Path

import pytest

import bon
from bon.exports import export_run
from bon.importing.import_files import import_files
from tests.conftest import echo_experiment
from tests.running.conftest import go_in


def numbers(directory: Path) -> dict[str, float | None]:
    """What the results say of accuracies, their intervals, and r."""
    results = bon.load(directory).analyse(draws=100)
    found: dict[str, float | None] = {}

    def note(name: str, estimate) -> None:
        for part in ("value", "low", "high"):
            found[f"{name} {part}"] = getattr(estimate, part)

    for policy in results.policies:
        for name in ("pass_at_1", "majority", "oracle", "unparsed", "errors"):
            note(f"{policy.policy} {name}", getattr(policy, name))
    for b in results.best_of_n:
        for point in b.curve:
            note(f"{b.policy} {b.rewarder} {b.rule} {point.n}", point.accuracy)
    for one in results.benchmarks:
        note(f"{one.rewarder} macro", one.macro)
        note(f"{one.rewarder} overall", one.overall)
        for group in one.groups:
            note(f"{one.rewarder} {group.name}", group.accuracy)
    for c in results.correlations:
        note(f"{c.policy} {c.axis} r", c.pearson.estimate)
    return found


def assert_restored(run: Path, folder: Path) -> None:
    """Export the run, import the folder, and compare every number."""
    expected = numbers(run)
    assert len(expected) > 20
    export_run(run, folder / "exported", "parquet")
    import_files([folder / "exported"], "", folder / "restored", quiet=True)
    assert numbers(folder / "restored") == pytest.approx(expected, abs=1e-9)


def test_an_exported_run_imports_with_the_same_numbers(run, tmp_path):
    assert_restored(run, tmp_path)


def test_unread_replies_votes_and_repeated_ids_survive(tmp_path):
    raw = echo_experiment(unparsed_rate=0.2, failure_rate=0.1)
    raw["rewarders"][0]["votes"] = 2
    rows = [
        {
            "id": f"q{i // 2}",
            "question": f"{i}?",
            "options": list("vwxyz"),
            "answer": "ABCDE"[i % 5],
        }
        for i in range(10)
    ]
    (tmp_path / "questions.jsonl").write_text("\n".join(map(json.dumps, rows)))
    pairs = [
        {
            "id": f"p{i}",
            "prompt": f"{i}?",
            "chosen": f"good {i}",
            "rejected": f"bad {i}",
            "group": "g",
        }
        for i in range(8)
    ]
    (tmp_path / "pairs.jsonl").write_text("\n".join(map(json.dumps, pairs)))
    assert_restored(go_in(tmp_path)(raw), tmp_path)


def test_a_run_without_texts_goes_out_without_texts(tmp_path):
    told = [
        {
            "id": f"q{i}",
            "question": f"{i}?",
            "candidates": [{"correct": i % 3 == k} for k in range(3)],
        }
        for i in range(6)
    ]
    scores = [
        {"rewarder": "r", "question": f"q{i}", "scores": [(i * 7 + k) % 5 for k in range(3)]}
        for i in range(6)
    ]
    for name, rows in {"told": told, "scores": scores}.items():
        (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    files = [tmp_path / "told.jsonl", tmp_path / "scores.jsonl"]
    import_files(files, "p", tmp_path / "run", quiet=True)
    assert_restored(tmp_path / "run", tmp_path)
