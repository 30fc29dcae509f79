"""A file of every format that bon reads, as the tool that writes it lays it out."""

import csv
import json
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Rows = list[dict[str, Any]]
OPTIONS = ["seven", "one", "none"]
COUNT = 8


def prompt(i: int) -> str:
    return f"How much is {i}?\nA. seven\nB. one\nC. none\n\nAnswer with the letter."


def text(i: int, sample: int) -> str:
    return f"Sample {sample} of {i}. Answer: {'ABC'[(i + sample) % 3]}"


def questions() -> Rows:
    """What the logs below are about."""
    return [
        {"id": f"q{i}", "question": f"How much is {i}?", "options": OPTIONS, "answer": "B"}
        for i in range(COUNT)
    ]


def lines(path: Path, rows: Rows) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def listed(path: Path, rows: Rows) -> None:
    path.write_text(json.dumps(rows))


def _zipped(path: Path, rows: Rows) -> None:
    with zipfile.ZipFile(path, "w") as file:
        for at, row in enumerate(rows):
            name = f"samples/{row['id']}_epoch_{row['epoch']}.json"
            if name not in file.namelist() or at < len(rows):
                file.writestr(name, json.dumps(row))


def _columns(path: Path, rows: Rows) -> None:
    whole = {name: [row[name] for row in rows] for name in rows[0]} if rows else {}
    path.write_text(json.dumps({"model": "org/theirs", **whole}))


def _log(path: Path, rows: Rows) -> None:
    path.write_text(json.dumps({"version": 2, "status": "success", "eval": {}, "samples": rows}))


def _numbered(path: Path, rows: Rows) -> None:
    path.write_text(json.dumps({str(row["number"]): row for row in rows}, indent=4))


def _by_number(path: Path, rows: Rows) -> None:
    path.write_text(json.dumps({str(at): row for at, row in enumerate(rows)}))


def _table(path: Path, rows: Rows) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]) if rows else ["index"], delimiter="\t")
        writer.writeheader()
        writer.writerows(rows)


def _book(path: Path, rows: Rows) -> None:
    import openpyxl

    book = openpyxl.Workbook()
    book.active.append(list(rows[0]) if rows else ["index"])
    for row in rows:
        book.active.append(list(row.values()))
    book.save(path)


def _inspect() -> Rows:
    return [
        {
            "id": f"q{i}",
            "epoch": epoch,
            "input": [{"role": "user", "content": f"How much is {i}?"}],
            "choices": OPTIONS,
            "target": "B",
            "messages": [{"role": "user", "content": prompt(i)}],
            "output": {"choices": [{"message": {"role": "assistant", "content": text(i, epoch)}}]},
            "scores": {"choice": {"value": "C", "answer": "B"}},
        }
        for i in range(COUNT)
        for epoch in (1, 2)
    ]


def _lmms_eval() -> Rows:
    return [
        {
            "doc_id": i,
            "target": "B",
            "resps": [text(i, 0), text(i, 1)],
            "filtered_resps": text(i, 0),
            "mmmu_acc": {"id": f"q{i}", "parsed_pred": "ABC"[i % 3]},
            "input": prompt(i),
        }
        for i in range(COUNT)
    ]


def _opencompass() -> Rows:
    turns = [[{"role": "HUMAN", "prompt": prompt(i)}] for i in range(COUNT)]
    return [
        {"number": i, "origin_prompt": turns[i], "prediction": text(i, 0), "gold": "B"}
        for i in range(COUNT)
    ]


def _vlmevalkit() -> Rows:
    return [
        {
            "index": i + 1, "id": f"q{i}", "question": f"How much is {i}?", "A": "seven",
            "B": "one", "C": "none", "D": "", "answer": "B", "category": "Sums",
            "prediction": text(i, 0),
        }
        for i in range(COUNT)
    ]  # fmt: skip


def _answers() -> Rows:
    return [{**row, "response": [text(i, 0), text(i, 1)]} for i, row in enumerate(questions())]


def _candidates() -> Rows:
    return [
        {
            "id": f"q{i}",
            "question": f"{i}?",
            "candidates": [{"correct": i % 2 == j} for j in (0, 1)],
        }
        for i in range(COUNT)
    ]


def _wide_scores() -> Rows:
    return [
        {"question": f"q{i}", "candidate": j, "theirs": i * j, "ours": 0.5}
        for i in range(COUNT)
        for j in (0, 1)
    ]


def _pair_scores() -> Rows:
    return [
        {"rewarder": "theirs", "pair": f"p{i}", "chosen": i + 0.5, "rejected": float(i % 3)}
        for i in range(COUNT)
    ]


def _reward_bench() -> Rows:
    return [
        {
            "text_chosen": "good", "text_rejected": "bad", "scores_chosen": i + 0.5,
            "scores_rejected": float(i % 3), "results": 1, "subset": "math", "id": i,
        }
        for i in range(COUNT)
    ]  # fmt: skip


def _vl_rewardbench() -> Rows:
    return [
        {
            "id": "one id of all",
            "query": f"What is in picture {i}?",
            "response": ["a cat", f"{i} dogs"],
            "ranking": [i % 2, 1 - i % 2],
            "judge": "org/judge",
            "meta": {
                "random_number": i % 3 % 2,
                "filter_number": vote,
                "filter_choice": f"Overall Judgment: Answer {1 + (i + vote) % 2} is better.",
            },
        }
        for i in range(COUNT)
        for vote in (0, 1)
    ]


def _multimodal_rewardbench() -> Rows:
    return [
        {
            "ID": f"p{i}",
            "Text": "Which is better?",
            "Image": f"{i}.png",
            "Label": "AB"[i % 2],
            "Meta": {"Output1": "x", "Output2": "y", "Better": "Output1", "Category": "vqa"},
            "outputs": ["So: [[A]]", "So: [[B]]", "[[A]] or [[B]]"],
        }
        for i in range(COUNT)
    ]


def _reward_bench_2() -> Rows:
    return [
        {"scores": [[i + 0.5], [float(i % 3)], [1.0], [0.25]], "num_correct": 1, "id": f"q{i}",
         "subset": ("Math", "Focus")[i % 2]}
        for i in range(COUNT)
    ]  # fmt: skip


def _judgebench() -> Rows:
    return [
        {
            "pair_id": f"p{i}", "source": "mmlu-pro-law", "question": f"Which is better, {i}?",
            "response_A": "x", "response_B": "y", "label": ("A>B", "B>A")[i % 2],
            "judge_name": "arena_hard",
            "judgments": [{"decision": "A>B"}, {"decision": ("B>A", None)[i % 2]}],
        }
        for i in range(COUNT)
    ]  # fmt: skip


def _mmlu_pro() -> Rows:
    return [
        {"question_id": f"q{i}", "question": f"How much is {i}?", "options": OPTIONS, "answer": "B",
         "answer_index": 1, "category": "law", "pred": "A", "model_outputs": text(i, 0)}
        for i in range(COUNT)
    ]  # fmt: skip


def _archive(path: Path, rows: Rows) -> None:
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("M/law_result.json", json.dumps(rows))
        file.writestr("M/summary.txt", "law 0.5")


def _verl() -> Rows:
    return [
        {
            "uid": f"q{i}",
            "input": prompt(i),
            "output": text(i, 0),
            "gts": "B",
            "score": 1,
            "step": 5,
        }
        for i in range(COUNT)
    ]


def _dynamath() -> Rows:
    return [
        {"id": f"q{i}", "question": prompt(i), "ground_truth": "B", "response": text(i, 0)}
        for i in range(COUNT)
    ]


def _ppe() -> Rows:
    return [
        {
            "question_id": f"q{i}",
            "model_name": None,
            "prompt": prompt(i),
            "response_1": text(i, 0),
            "response_2": text(i, 1),
            "scores": [i % 3 == 1, i % 3 == 0],
            "sampled_conflict_pairs": [[0, 1]],
        }
        for i in range(COUNT)
    ]


@dataclass(frozen=True)
class Made:
    """How a format's file is made: its rows, how they are written, what else is given.

    beside: formats that have to be imported with it. again: rows that occur twice are votes or
    samples of their own.
    """

    file: str
    rows: Callable[[], Rows]
    write: Callable[[Path, Rows], None] = lines
    questions: bool = False
    beside: tuple[str, ...] = ()
    again: bool = False


MADE: dict[str, Made] = {
    "answers": Made("answers.jsonl", _answers, again=True),
    "ppe_best_of_k": Made("ppe.jsonl", _ppe, again=True),
    "candidates": Made("right.jsonl", _candidates),
    "scores": Made(
        "scores.jsonl",
        lambda: [
            {"rewarder": "theirs", "question": f"q{i}", "scores": [i, 3 - i]} for i in range(COUNT)
        ],
        beside=("candidates",),
    ),
    "wide_scores": Made("wide.jsonl", _wide_scores, beside=("candidates",)),
    "pairs": Made(
        "pairs.jsonl",
        lambda: [{"id": f"p{i}", "prompt": f"Pair {i}", "group": "sums"} for i in range(COUNT)],
        beside=("candidates",),
    ),
    "pair_scores": Made("pair_scores.jsonl", _pair_scores, beside=("candidates",)),
    "verdicts": Made(
        "verdicts.jsonl",
        lambda: [
            {"rewarder": "judge", "item": f"q{i}", "first": 0, "second": 1, "outcome": "tie"}
            for i in range(COUNT)
        ],
        beside=("candidates",),
        again=True,
    ),
    "lmms_eval": Made("2026_samples_task.jsonl", _lmms_eval, questions=True),
    "opencompass": Made("mmlu.json", _opencompass, _numbered, questions=True),
    "inspect_ai": Made("log.eval", _inspect, _zipped),
    "inspect_ai json": Made("log.json", _inspect, _log),
    "vlmevalkit": Made("M_MMMU.xlsx", _vlmevalkit, _book),
    "vlmevalkit tsv": Made("M_MMMU.tsv", _vlmevalkit, _table),
    "vlmevalkit json": Made("M_MMMU.json", _vlmevalkit, listed),
    "reward_bench": Made("theirs.json", _reward_bench, _columns, beside=("candidates",)),
    "reward_bench_2": Made("theirs2.json", _reward_bench_2, _columns),
    "judgebench": Made("judge.jsonl", _judgebench, beside=("candidates",)),
    "mmlu_pro": Made("M.zip", _mmlu_pro, _archive, again=True),
    "mmlu_pro json": Made("M_law.json", _mmlu_pro, listed, again=True),
    "verl_rollouts": Made("5.jsonl", _verl, again=True),
    "dynamath": Made("M.json", _dynamath, listed, again=True),
    "vl_rewardbench_judgements released": Made(
        "judge.json", _vl_rewardbench, _by_number, beside=("candidates",)
    ),
    "vl_rewardbench_judgements": Made("judge.jsonl", _vl_rewardbench, beside=("candidates",)),
    "multimodal_rewardbench_judgements": Made(
        "judge.jsonl", _multimodal_rewardbench, beside=("candidates",)
    ),
}
