"""Make the rows of the miniature's two data sets: `python -m tools.miniature.data`.

The questions follow from their numbers, the pairs from the policies' responses in pairs.jsonl.
"""

import json
from pathlib import Path
from typing import Any

from bon.miniature.data import FOLDER
from bon.miniature.scene import Scene
from tools.miniature.rng import Rng
from tools.miniature.world import GROUPS, SUBJECTS, make, query

PAIRS = Path(__file__).parent / "pairs.jsonl"
# VL-RewardBench's groups follow from prefixes of ids; other prefixes are general.
PREFIXES = {"general": "miniature-", "hallucination": "RLAIF-V-", "reasoning": "mathverse_"}
IMAGES = [f"image_{i}" for i in range(1, 8)]


def write_rows(folder: Path = FOLDER, stored: Path = PAIRS) -> None:
    """Write questions.jsonl and pairs.jsonl, scenes in place of images."""
    responses = stored_pairs(stored)
    tables = {
        "questions": questions(200),
        "pairs": pairs(min(300, len(responses)), 0, responses),
    }
    for name, rows in tables.items():
        lines = [json.dumps(row, ensure_ascii=False) for row in rows]
        (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")


def questions(count: int, seed: int = 0) -> list[dict[str, Any]]:
    """Return downstream questions in MMMU-Pro's "standard (10 options)" columns."""
    rows = []
    for index in range(count):
        subject = SUBJECTS[index % len(SUBJECTS)]
        # One seed per index, so that a longer list starts with the shorter one.
        question = make(seed * 1_000_000 + index, "downstream", subject)
        name = f"test_{subject}_{index + 1}"
        images = [_image(scene, f"{name}_{i + 1}") for i, scene in enumerate(question.scenes)]
        rows.append(
            {
                "id": name,
                "question": question.text,
                "options": str(list(question.options)),
                "explanation": question.solution,
                **dict(zip(IMAGES, images, strict=False)),
                "img_type": "['Diagrams']",
                "answer": question.answer,
                "topic_difficulty": question.difficulty,
                "subject": subject,
            }
        )
    return rows


def stored_pairs(path: Path = PAIRS) -> list[dict[str, Any]]:
    """Return the committed responses: seed and subject of the question, policy, right, wrong."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def pairs(
    count: int, seed: int = 0, stored: list[dict[str, Any]] | None = None
) -> list[dict[str, Any]]:
    """Return preference pairs in VL-RewardBench's columns, in equal parts of three groups."""
    stored = stored_pairs() if stored is None else stored
    if count > len(stored):
        raise ValueError(f"num_pairs is {count}, but only {len(stored)} pairs are stored")
    rng = Rng("pairs", seed)
    queues = {
        group: rng.shuffled([p for p in stored if GROUPS[p["subject"]] == group])
        for group in PREFIXES
    }
    rows: list[dict[str, Any]] = []
    while len(rows) < count:
        for group, queue in queues.items():
            if queue and len(rows) < count:
                rows.append(_pair(queue.pop(), group, len(rows) + 1, rng))
    return rows


def _pair(stored: dict[str, Any], group: str, number: int, rng: Rng) -> dict[str, Any]:
    question = make(stored["seed"], "benchmark", stored["subject"])
    name = f"{PREFIXES[group]}{number:04d}"
    first_is_right = rng.chance(0.5)
    responses = [stored["right"], stored["wrong"]]
    return {
        "id": name,
        "query": query(question),
        "response": responses if first_is_right else responses[::-1],
        "image": _image(question.scenes[0], name),
        "human_ranking": [0, 1] if first_is_right else [1, 0],  # rank 0 is the better one
        "models": [stored["policy"]] * 2,
        "query_source": f"miniature/{stored['subject']}",
        "ground_truth": question.response,
        "group": group,
    }


def _image(scene: Scene, name: str) -> dict[str, Any]:
    return {"kinds": scene.kinds, "variants": scene.variants, "path": f"{name}.png"}


if __name__ == "__main__":
    write_rows()
