"""Outputs of other tools that are tables under other names: the column of each role."""

from collections.abc import Iterator, Mapping
from itertools import count, takewhile
from pathlib import Path
from typing import Any, NamedTuple

from bon.benchmarks.base import BadRow
from bon.benchmarks.rows import RawRow
from bon.core.keys import content_key
from bon.formats.base import Format, file_rows, first_row


class Layout(NamedTuple):
    """A file of responses: the columns (`a|b`: either) of its roles, of which all must be there.

    Without `id`, rows of one question are samples of it.
    """

    name: str
    title: str
    needs: str
    roles: Mapping[str, str]


LAYOUTS = (
    Layout(
        "mmlu_pro",
        "Results of MMLU-Pro's scripts",
        "eval_results/MODEL.zip, or a JSON of it",
        {
            "id": "question_id", "question": "question", "options": "options", "answer": "answer",
            "response": "model_outputs|generated_text", "subject": "category",
        },
    ),
    Layout(
        "verl_rollouts",
        "Rollouts that verl dumps",
        "STEP.jsonl of trainer.rollout_data_dir or validation_data_dir",
        {"id": "uid", "question": "input", "answer": "gts", "response": "output"},
    ),
    Layout(
        "dynamath",
        "Responses to DynaMath",
        "the JSON that its script writes, with the right answers",
        {
            "id": "id", "question": "question", "answer": "ground_truth",
            "response": "response|full answer",
        },
    ),
)  # fmt: skip


def _found(layout: Layout, row: Mapping[str, Any]) -> dict[str, str]:
    """Return the columns of the roles that a row has."""
    columns = {
        role: next((name for name in names.split("|") if name in row), "")
        for role, names in layout.roles.items()
    }
    return {role: name for role, name in columns.items() if name}


def _format(layout: Layout) -> Format:
    needed = layout.roles.keys() - {"id"}

    def recognises(path: Path) -> bool:
        known = path.suffix in (".json", ".jsonl", ".zip") and path.is_file()
        return known and needed <= _found(layout, first_row(path)).keys()

    def rows(path: Path) -> Iterator[RawRow]:
        for folder, row in file_rows(path):
            if isinstance(row, BadRow):
                yield folder, row
                continue
            own = {role: row[name] for role, name in _found(layout, row).items()}
            own.setdefault("id", content_key(own.get("question"), own.get("answer"))[:12])
            yield folder, own

    return Format(layout.name, layout.title, layout.needs, "answers", recognises, rows)


def _ppe_rows(path: Path) -> Iterator[RawRow]:
    """Yield PPE's questions, which several policies answer, with the responses of one each."""
    for folder, row in file_rows(path):
        if isinstance(row, BadRow):
            yield folder, row
            continue
        names = (f"response_{number}" for number in count(1))
        yield (
            folder,
            {
                "id": "/".join(filter(None, (str(row["question_id"]), row["model_name"]))),
                "question": row["prompt"],
                "cluster": str(row["question_id"]),
                "response": [row[name] for name in takewhile(row.__contains__, names)],
                "correct": [bool(score) for score in row["scores"]],
            },
        )


FORMATS = (
    *map(_format, LAYOUTS),
    Format(
        "ppe_best_of_k",
        "PPE's correctness sets, graded responses",
        "a file or folder of lmarena-ai/PPE-*-Best-of-K",
        "answers",
        lambda path: (
            {"question_id", "model_name", "prompt", "response_1", "scores"}
            <= first_row(path).keys()
        ),
        _ppe_rows,
    ),
)
