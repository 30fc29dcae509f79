"""Every registered benchmark reads a replica of its rows: a new one needs a case here."""

from pathlib import Path
from typing import Any

import pytest

from bon.benchmarks import BENCHMARKS, load_pairs, load_questions
from bon.core.images import ImageStore
from bon.core.records import PreferencePair, Question
from bon.experiment.config import DatasetSpec

from .conftest import Write, png, struct
from .test_mmrb2 import hub_row
from .test_pairs import vlrb_row
from .test_questions import mmmu_row
from .test_tasks import ROWS

CASES: dict[str, tuple[dict[str, Any], str]] = {
    # a row; the right answer, or what the better response begins with
    **{task: (row, expected[2]) for task, row, expected in ROWS},
    "math500": ({"problem": "Q", "answer": "2", "unique_id": "u", "level": 2}, "2"),
    "gpqa": (
        {"Question": "Q", "Correct Answer": "good",
         **{f"Incorrect Answer {i}": f"bad {i}" for i in (1, 2, 3)}},
        "good",
    ),
    "mmmu_pro": (mmmu_row(), "B"),
    "multiple_choice": ({"question": "Q", "options": ["x", "y"], "answer": "B"}, "B"),
    "open_ended": ({"question": "Q", "answer": "red"}, "red"),
    "vl_rewardbench": (vlrb_row(), "a dog"),
    "multimodal_rewardbench": (
        {"ID": "mmmu_1", "Text": "Q", "Image": "a.png", "Output1": "bad", "Output2": "good",
         "Better": "Output2", "Category": "knowledge"},
        "good",
    ),
    "mm_rlhf": (
        {"id": "7", "image": "a.png", "prompt": "Q", "chosen": "good", "rejected": "bad"}, "good"
    ),
    "mmrb2": (hub_row(), "Look at the left"),
    "judgebench": (
        {"pair_id": "1", "source": "math", "question": "Q", "response_A": "bad",
         "response_B": "good", "label": "B>A"},
        "good",
    ),
    "processbench": (
        {"id": "math-1", "problem": "Q", "steps": ["good", "bad"], "label": 1}, "good\n\nbad"
    ),
    "visualprocessbench": (
        {"question": "<image>\nQ", "image": ["a.png"], "data_source": "MMMU",
         "response": {"steps": ["good", "so", "bad"], "process_correctness": [1, 0, -1]}},
        "good\n\nso",
    ),
    "prmbench": (
        {"idx": "circular_1", "modified_question": "Q", "modified_process": ["good", "bad"],
         "error_steps": [2], "classification": "circular"},
        "good\n\nbad",
    ),
    "omni_rewardbench": (
        {"id": "1", "prompt": "Q", "response1": "bad", "response2": "good",
         "image": struct(png()), "criteria": "Brevity", "criteria_preference": "response2"},
        "good",
    ),
    "ppe": (
        {"question_id": "1", "language": "English", "prompt": "Q", "response_1": "bad",
         "response_2": "good", "winner": "model_b"},
        "good",
    ),
    "reward_bench_2": (
        {"id": "1", "prompt": "Q", "chosen": ["good"], "rejected": ["bad"], "subset": "Math",
         "num_correct": 1},
        "good",
    ),
    "rm_bench": (
        {"id": "1", "prompt": "Q", "domain": "chat", "chosen": ["good"] * 3,
         "rejected": ["bad"] * 3},
        "good",
    ),
    "preference": ({"prompt": "Q", "chosen": "good", "rejected": "bad"}, "good"),
}  # fmt: skip


@pytest.mark.parametrize("name", BENCHMARKS)
def test_every_benchmark_reads_its_rows(
    name: str, write: Write, tmp_path: Path, store: ImageStore
) -> None:
    row, right = CASES[name]
    assert BENCHMARKS[name].title
    assert BENCHMARKS[name].licence
    (tmp_path / "a.png").write_bytes(png())
    spec = DatasetSpec(benchmark=name, path=str(write("rows.parquet", [row])))
    load = {"questions": load_questions, "pairs": load_pairs}[BENCHMARKS[name].kind]
    for found in (records := list(load(spec, store))):
        assert isinstance(found, Question | PreferencePair), found
        if isinstance(found, PreferencePair):
            assert found.responses[found.preferred].startswith(right)
            worse = found.responses[1 - found.preferred]  # step labels: the same response again
            assert worse.startswith(right) == BENCHMARKS[name].steps
        else:
            options = dict(zip("ABCDEFGHIJ", found.options, strict=False))
            assert right in (found.answer, options.get(found.answer or ""))
    assert records
