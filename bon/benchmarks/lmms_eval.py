"""Tasks of an installed lmms-eval as they are: `benchmark: lmms_eval:TASK`.

The task's prompt and images take the place of an adapter's, its scorer that of a grader
(bon.graders.lmms_eval).
"""

import io
import json
from collections.abc import Mapping
from functools import partial
from typing import Any

from bon.benchmarks.base import Adapter, Context, Form, Row, RowError, image_bytes
from bon.core.errors import one_line
from bon.core.images import open_image
from bon.core.records import Question
from bon.graders.lmms_eval import load_task


def lmms_task(name: str) -> Adapter:
    """Return the adapter of a task; BonError if it cannot be used."""
    task = load_task(name)
    return Adapter(
        kind="questions",
        title=f"{task['task']}, of lmms-eval",
        licence="not stated",
        hub=task["dataset_path"],
        split=task["test_split"],
        config=lambda config: config or task.get("dataset_name"),
        forms=(Form(need={}),),
        convert=partial(_question, name, task),
        grader=name,
    )


def _question(name: str, task: dict[str, Any], context: Context, row: Row) -> Question:
    document = {key: _decoded(value) for key, value in row.values.items()}
    settings = (task.get("lmms_eval_specific_kwargs") or {}).get("default", {})
    try:
        text = str(task["doc_to_text"](document, *([settings] if settings else [])))
        visuals = task["doc_to_visual"](document)
        target = task.get("doc_to_target", "")
        answer = target(document) if callable(target) else document.get(str(target), "")
    except Exception as error:
        raise RowError(f"lmms-eval cannot read it: {one_line(error)}") from None
    images = tuple(context.images.add(_png(image)) for image in visuals)
    plain = {key: value for key, value in document.items() if _is_plain(value)}
    shown = str(answer[0] if isinstance(answer, list) and answer else answer)
    return context.question(
        row, text, (), shown, images, grader=name, aliases=[json.dumps(plain, sort_keys=True)]
    )


def _decoded(value: Any) -> Any:
    """Return images as PIL images, as `datasets` gives them."""
    if isinstance(value, Mapping) and "bytes" in value:
        return open_image(image_bytes(value, None))
    return [_decoded(one) for one in value] if isinstance(value, list) else value


def _is_plain(value: Any) -> bool:
    try:
        json.dumps(value)
    except TypeError:
        return False
    return True


def _png(image: Any) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return buffer.getvalue()
