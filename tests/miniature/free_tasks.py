"""The miniature's questions without options."""

import ast
import base64
import json
from pathlib import Path
from typing import Any

from bon.miniature.data import FOLDER, png, rows
from tools.miniature.world import kind_name

FREE = {"numbers": ("Colour_Count", "Shape_Count", "Difference"), "objects": ("Location",)}
"""Tasks without options, answered by a number or by words, and their subjects."""


def write_free(folder: Path) -> dict[str, Path]:
    """Write questions without options as JSONL, for `benchmark: open_ended`; return the paths.

    Those of `FREE`; `descriptions`, with a rubric; `frames`, about four boards like frames of a
    video.
    """
    tables: dict[str, list[dict[str, Any]]] = {"descriptions": [], "frames": []}
    for row in rows("questions"):
        task = next((name for name, subjects in FREE.items() if row["subject"] in subjects), None)
        if task is not None:
            right = ast.literal_eval(row["options"])["ABCDEFGHIJ".index(row["answer"])]
            kept = {key: row[key] for key in ("id", "question", "subject")}
            image = base64.b64encode(row["image_1"]["bytes"]).decode()
            tables.setdefault(task, []).append({**kept, "answer": right, "image": image})
    lines = (FOLDER / "questions.jsonl").read_text(encoding="utf-8").splitlines()
    boards = [json.loads(line)["image_1"] for line in lines]
    for number in range(0, len(boards), 4):
        shown = boards[number : number + 4]
        images = [base64.b64encode(png(board)["bytes"]).decode() for board in shown]
        kind = next(kind for kind in shown[0]["kinds"] if kind)
        name = kind_name(kind)
        present = [f"{kind_name(k)} in cell {i}" for i, k in enumerate(shown[0]["kinds"], 1) if k]
        tables["descriptions"].append(
            {
                "id": f"description_{number}",
                "question": "<image 1> Describe the board, whose cells are numbered row by row.",
                "rubric": f"Names these objects and no others: {', '.join(present)}.",
                "image": images[0],
            }
        )
        tables["frames"].append(
            {
                "id": f"frames_{number}",
                "question": f"Four frames of a video. In how many of them is there a {name}?",
                "answer": sum(kind in board["kinds"] for board in shown),
                "images": images,
            }
        )
    paths = {name: folder / f"{name}.jsonl" for name in tables}
    for name, path in paths.items():
        text = "".join(json.dumps(row) + "\n" for row in tables[name])
        path.write_text(text, encoding="utf-8")
    return paths
