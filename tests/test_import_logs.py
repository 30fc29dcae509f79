"""Logs that other tools wrote: real ones where they are, and small ones of the same layout."""

import base64
import io
import json
from pathlib import Path

import pytest
from PIL import Image

import bon
from bon.core.errors import BonError
from bon.importing.import_files import import_files
from bon.storage.store import Store
from tests.formats_made import MADE, OPTIONS, lines
from tests.formats_made import questions as asked

REAL = Path(__file__).parents[2] / "shared" / "data" / "interop"


def questions(folder: Path, **changed: object) -> Path:
    lines(folder / "questions.jsonl", [row | changed for row in asked()[:3]])
    return folder / "questions.jsonl"


def sample(i: int, texts: list[str]) -> dict:
    row = MADE["lmms_eval"].rows()[i] | {"resps": texts, "filtered_resps": texts[0]}
    return row | {"mmmu_acc": {"id": f"q{i}", "parsed_pred": "C"}}


SAMPLES = [sample(i, [f"Well {i}. Answer: B", f"Hm {i}. Answer: C"]) for i in range(3)]


def log(folder: Path, rows: list[dict], repeats: int = 2) -> Path:
    results = {"configs": {"task": {"repeats": repeats}}}
    (folder / "2026_results.json").write_text(json.dumps(results))
    lines(folder / "2026_samples_task.jsonl", rows)
    return folder / "2026_samples_task.jsonl"


def imported(file: Path, out: Path, about: Path | str = "") -> dict[str, list[str]]:
    """Question id -> its candidates in order."""
    import_files([file], "p", out, questions=str(about), quiet=True)
    with Store(out, readonly=True) as store:
        (spec,) = {spec for (spec,) in store.query("SELECT DISTINCT spec FROM candidates")}
        return {q.id: [c.text for c in store.candidates(spec, q.key)] for q in store.questions()}


def notes(out: Path) -> str:
    with Store(out, readonly=True) as store:
        return " ".join(store.meta("notes"))


@pytest.mark.parametrize("order", [1, -1])
def test_all_repeats_of_lmms_eval_are_candidates(tmp_path, order):
    twice = SAMPLES[::order] * 2  # a document has a line for each filter
    found = imported(log(tmp_path, twice), tmp_path / "run", questions(tmp_path))
    assert found == {f"q{i}": SAMPLES[i]["resps"] for i in range(3)}
    assert bon.load(tmp_path / "run").tables.candidates.correct.mean() == 0.5
    assert "3 of 3 answers were read differently" in notes(tmp_path / "run")


def test_a_run_says_what_a_log_is_about(tmp_path):
    imported(log(tmp_path, SAMPLES), tmp_path / "one", questions(tmp_path))
    (tmp_path / "questions.jsonl").unlink()
    again = imported(tmp_path / "2026_samples_task.jsonl", tmp_path / "two", tmp_path / "one")
    assert again["q1"] == SAMPLES[1]["resps"]


def test_one_text_of_several_repeats_is_refused_with_the_advice(tmp_path):
    kept = [sample(i, ["Answer: B"]) for i in range(3)]
    with pytest.raises(BonError, match="--reasoning_tags none"):
        imported(log(tmp_path, kept, repeats=4), tmp_path / "run", questions(tmp_path))


def test_greedy_repeats_are_said(tmp_path):
    same = [sample(i, ["Answer: B", "Answer: B"]) for i in range(3)]
    imported(log(tmp_path, same), tmp_path / "run", questions(tmp_path))
    assert "not samples" in notes(tmp_path / "run")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"answer": "A"}, r"row 0 \(q0\): the right answer is 'B', in .* 'A'"),
        ({"options": ["one", "seven", "none"]}, r"the prompt has no option 'A. one'"),
        ({"id": "other"}, r"row 0 \(q0\) is about no question"),
    ],
)
def test_a_log_of_other_questions_is_refused_with_the_first_row(tmp_path, changed, said):
    with pytest.raises(BonError, match=said):
        imported(log(tmp_path, SAMPLES), tmp_path / "run", questions(tmp_path, **changed))


def test_a_log_without_questions_asks_for_them(tmp_path):
    with pytest.raises(BonError, match="name them with --questions"):
        imported(log(tmp_path, SAMPLES), tmp_path / "run")


def picture() -> str:
    buffer = io.BytesIO()
    Image.new("RGB", (4, 4), "red").save(buffer, "PNG")
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()


def epoch(number: int, **changed: object) -> dict:
    asked = [{"type": "text", "text": "Which?"}, {"type": "image", "image": "attachment://x"}]
    reply = [{"type": "reasoning", "reasoning": "hm"}, {"type": "text", "text": f"{number}: B"}]
    return {
        "id": "s1",
        "epoch": number,
        "input": [{"role": "user", "content": asked}],
        "choices": OPTIONS,
        "target": "B",
        "messages": [{"role": "user", "content": "Which?\nA) seven\nB) one\nC) none"}],
        "output": {"choices": [{"message": {"role": "assistant", "content": reply}}]},
        "scores": {"choice": {"value": "C", "answer": "B"}},
        "attachments": {"x": picture()},
        **changed,
    }


@pytest.mark.parametrize("suffix", ["eval", "json"])
def test_epochs_of_inspect_are_candidates_whatever_their_order(tmp_path, suffix):
    samples = [epoch(2), epoch(1), epoch(3, error={"message": "timeout"})]
    path = tmp_path / f"log.{suffix}"
    MADE["inspect_ai" if suffix == "eval" else "inspect_ai json"].write(path, samples)
    assert imported(path, tmp_path / "run") == {"s1": ["1: B", "2: B", ""]}
    run = bon.load(tmp_path / "run")
    assert run.tables.candidates.outcome.tolist()[2] == "error"
    with Store(tmp_path / "run", readonly=True) as store:
        (question,) = store.questions()
        assert (question.options, len(question.images)) == (tuple(OPTIONS), 1)


def test_shuffled_options_are_refused(tmp_path):
    other = [{"role": "user", "content": "Which?\nA) one\nB) seven\nC) none"}]
    path = tmp_path / "log.eval"
    MADE["inspect_ai"].write(path, [epoch(1, messages=other)])
    with pytest.raises(BonError, match="its options were shuffled"):
        imported(path, tmp_path / "run")


@pytest.fixture
def real() -> Path:
    if not REAL.is_dir():
        pytest.skip("no real data beside this checkout")
    return REAL


def test_the_real_logs_of_lmms_eval(tmp_path, real):
    (file,) = (real / "lmms_eval" / "all_repeats").glob("*_samples_*.jsonl")
    found = imported(file, tmp_path / "run", real / "lmms_eval" / "questions.jsonl")
    assert [len(texts) for texts in found.values()] == [4] * 30
    (kept,) = (real / "lmms_eval" / "default_tags").glob("*_samples_*.jsonl")
    with pytest.raises(BonError, match="document 0 holds 1"):
        imported(kept, tmp_path / "other", real / "lmms_eval" / "questions.jsonl")


def test_the_real_log_of_inspect(tmp_path, real):
    pytest.importorskip("zstandard")
    (file,) = real.glob("*.eval")
    found = imported(file, tmp_path / "run")
    assert [len(texts) for texts in found.values()] == [3, 3]
    with Store(tmp_path / "run", readonly=True) as store:
        assert all(question.images for question in store.questions())
