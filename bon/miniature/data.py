"""The miniature's two data sets, as the Parquet files of MMMU-Pro and VL-RewardBench.

questions.jsonl and pairs.jsonl hold their rows (tools/miniature/data.py makes them), with scenes
in the place of images, which are drawn as they are written. On uplift_questions.jsonl, of other
boards, `bon demo --uplift` evaluates what it trained.
"""

import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from bon.core.dataset_features import IMAGE, with_features
from bon.engines.packed_checkpoints import unpacked
from bon.miniature.scene import Scene, render

FOLDER = Path(__file__).parent

_IMAGES = [f"image_{i}" for i in range(1, 8)]
_QUESTION_TEXTS = ["id", "question", "options", "explanation"]
_QUESTION_LABELS = ["img_type", "answer", "topic_difficulty", "subject"]
QUESTION_SCHEMA = with_features(
    pa.schema(
        [(name, pa.string()) for name in _QUESTION_TEXTS]
        + [(name, IMAGE) for name in _IMAGES]
        + [(name, pa.string()) for name in _QUESTION_LABELS]
    )
)
PAIR_SCHEMA = with_features(
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


def checkpoint(name: str) -> Path:
    """Return the folder of a checkpoint, as transformers loads it; the first time it is written."""
    return unpacked(FOLDER / "checkpoints" / name)


def write(
    folder: Path, *, num_questions: int | None = None, num_pairs: int | None = None
) -> tuple[Path, Path]:
    """Write questions.parquet, then pairs.parquet, each atomically; returns their paths.

    `num_questions`, `num_pairs`: only the first ones (of 200 and 300).
    """
    return (
        write_table(folder, "questions", QUESTION_SCHEMA, num_questions),
        write_table(folder, "pairs", PAIR_SCHEMA, num_pairs),
    )


def write_table(
    folder: Path, name: str, schema: pa.Schema = QUESTION_SCHEMA, count: int | None = None
) -> Path:
    """Write the first rows of one table atomically; return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path, part = folder / f"{name}.parquet", folder / f"{name}.part"
    pq.write_table(pa.Table.from_pylist(rows(name)[:count], schema), part)
    part.replace(path)
    return path


def rows(name: str) -> list[dict[str, Any]]:
    """Return the rows of `questions` or `pairs`, their images drawn."""
    lines = (FOLDER / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return [
        {key: png(value) if key.startswith("image") else value for key, value in row.items()}
        for row in map(json.loads, lines)
    ]


def png(image: dict[str, Any]) -> dict[str, Any]:
    """Draw a scene as an image of a Parquet file."""
    buffer = io.BytesIO()
    scene = Scene(tuple(image["kinds"]), tuple(image["variants"]))
    render(scene).save(buffer, "PNG", compress_level=1)  # noise hardly compresses
    return {"bytes": buffer.getvalue(), "path": image["path"]}
