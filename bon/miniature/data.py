"""The miniature's two data sets, as the Parquet files of MMMU-Pro and VL-RewardBench.

Imports neither torch nor transformers; 200 questions and 300 pairs take about a second.
"""

import io
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from bon.core.featured import IMAGE, featured
from bon.core.forked import shared
from bon.miniature.rng import Rng
from bon.miniature.scene import Scene, render, tiles
from bon.miniature.world import GROUPS, SUBJECTS, make, query

PAIRS = Path(__file__).parent / "pairs.jsonl"
# VL-RewardBench's groups are read off its ids; whatever has another prefix is general.
PREFIXES = {"general": "miniature-", "hallucination": "RLAIF-V-", "reasoning": "mathverse_"}

_IMAGES = [f"image_{i}" for i in range(1, 8)]
_QUESTION_TEXTS = ["id", "question", "options", "explanation"]
_QUESTION_LABELS = ["img_type", "answer", "topic_difficulty", "subject"]
QUESTION_SCHEMA = featured(
    pa.schema(
        [(name, pa.string()) for name in _QUESTION_TEXTS]
        + [(name, IMAGE) for name in _IMAGES]
        + [(name, pa.string()) for name in _QUESTION_LABELS]
    )
)
PAIR_SCHEMA = featured(
    pa.schema(
        [
            ("id", pa.string()),
            ("query", pa.string()),
            ("response", pa.list_(pa.string())),
            ("image", IMAGE),
            ("human_ranking", pa.list_(pa.int64())),
            ("models", pa.list_(pa.string())),
            ("query_source", pa.string()),
            ("ground_truth", pa.string()),
            ("group", pa.string()),
        ]
    )
)


def write(
    folder: Path, *, num_questions: int = 200, num_pairs: int = 300, seed: int = 0
) -> tuple[Path, Path]:
    """Write questions.parquet and pairs.parquet into the folder and return their paths.

    Both are whole as soon as they are there, pairs.parquet last.
    """
    folder.mkdir(parents=True, exist_ok=True)
    paths = folder / "questions.parquet", folder / "pairs.parquet"
    tiles()  # once, before another process draws from them too
    works = (
        partial(_write, paths[0], partial(questions, num_questions, seed), QUESTION_SCHEMA),
        partial(_write, paths[1], partial(pairs, num_pairs, seed), PAIR_SCHEMA),
    )
    with shared(works) as written:
        for path, part in zip(paths, written(), strict=True):
            part.replace(path)
    return paths


def _write(path: Path, rows: Callable[[], list[dict[str, Any]]], schema: pa.Schema) -> Path:
    part = path.with_suffix(".part")
    pq.write_table(pa.Table.from_pylist(rows(), schema), part)
    return part


def questions(count: int, seed: int = 0) -> list[dict[str, Any]]:
    """Downstream questions in MMMU-Pro's "standard (10 options)" columns."""
    rows = []
    for index in range(count):
        subject = SUBJECTS[index % len(SUBJECTS)]
        # A seed for every index, so that a longer list begins with the shorter one.
        question = make(seed * 1_000_000 + index, "downstream", subject)
        name = f"test_{subject}_{index + 1}"
        images = [_png(scene, f"{name}_{i + 1}") for i, scene in enumerate(question.scenes)]
        rows.append(
            {
                "id": name,
                "question": question.text,
                "options": str(list(question.options)),
                "explanation": question.solution,
                **dict(zip(_IMAGES, images, strict=False)),
                "img_type": "['Diagrams']",
                "answer": question.answer,
                "topic_difficulty": question.difficulty,
                "subject": subject,
            }
        )
    return rows


def stored_pairs() -> list[dict[str, Any]]:
    """The committed responses: seed and subject of the question, policy, right, wrong."""
    return [json.loads(line) for line in PAIRS.read_text().splitlines()]


def pairs(count: int, seed: int = 0) -> list[dict[str, Any]]:
    """Preference pairs in VL-RewardBench's columns, the three groups in equal parts."""
    stored = stored_pairs()
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
        "image": _png(question.scenes[0], name),
        "human_ranking": [0, 1] if first_is_right else [1, 0],  # rank 0 is the better one
        "models": [stored["policy"]] * 2,
        "query_source": f"miniature/{stored['subject']}",
        "ground_truth": question.response,
        "group": group,
    }


def _png(scene: Scene, name: str) -> dict[str, Any]:
    buffer = io.BytesIO()
    render(scene).save(buffer, "PNG", compress_level=1)  # noise hardly compresses
    return {"bytes": buffer.getvalue(), "path": f"{name}.png"}
