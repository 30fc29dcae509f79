"""Downstream tasks in their published form: columns, split and scorer as in lmms-eval.

Prompts are the policy card's. Where the published scorer asks a model, its rules without the model
are used, and docs/graders.md says so.
"""

import re
from collections.abc import Callable
from types import MappingProxyType

from bon.benchmarks.base import (
    Adapter,
    Context,
    Form,
    Published,
    Row,
    RowError,
    parse_letter,
    parse_options,
)
from bon.benchmarks.multiple_choice import read_letter
from bon.benchmarks.open_ended import free
from bon.core.records import Question
from bon.experiment.letters import LETTERS, option_letters

Convert = Callable[[Context, Row], Question]


def _free(grader: str) -> Convert:
    """Return a conversion of rows whose answers are free."""
    return lambda context, row: free(
        context, row, row.need("question"), context.spec.grader or grader
    )


def _letters(context: Context, row: Row) -> Question:
    """Convert a row with options and a letter, an index from 0 as number or text, or a text."""
    options = parse_options(row.get("options"))
    answer = row.get("answer")
    if isinstance(answer, str) and answer.isdecimal() and answer not in options:
        answer = int(answer)
    hint, text = row.text("hint").strip(), row.need("question")
    text = f"Context: {hint}\n{text}" if hint else text
    return context.question(
        row, text, options, read_letter(answer, options), context.read_images(row)
    )


def _mathvision(context: Context, row: Row) -> Question:
    """Convert a row of MathVision: a letter if there are options, else a formula."""
    return _letters(context, row) if row.get("options") else _free("math")(context, row)


def _mathvista(context: Context, row: Row) -> Question:
    """Convert a row of MathVista; a number is right if it rounds to the answer's precision."""
    if row.get("options"):
        return _letters(context, row)
    kind = row.text("type")
    if kind == "list":
        return _free("exact")(context, row)
    precision = int(float(row.text("precision") or 0))
    margin = f"{0.5 / 10**precision:.10f}" if kind == "float" else ""
    return free(context, row, row.need("question"), context.spec.grader or "number", margin)


_OPTION = re.compile(r"(?:^|[\n,])\s*\(?([A-Z])[).:]\s*([^\n]*?)(?=,\s*\(?[A-Z][).:]\s|\s*\n|\s*$)")


def _inline(context: Context, row: Row) -> Question:
    """Convert a row whose question ends with its options: lines "A. cat" or "A: cat, B: dog"."""
    text = re.sub(r"\s*Please answer directly with[^\n]*$", "", row.need("question").strip())
    start = re.search(r"(?:\n?Options:|\n)\s*\(?A[).:]", text)
    found = _OPTION.findall(text[start.start() :].replace("Options:", "\n", 1)) if start else []
    letters, options = (tuple(part) for part in zip(*found, strict=True)) if found else ((), ())
    if "".join(letters) != LETTERS[: len(letters)]:
        raise RowError("its options are not in the order of their letters")
    if not start or not options:
        return free(context, row, text, context.spec.grader or "exact")
    letter = parse_letter(row.get("answer"))
    if letter not in option_letters(options):
        raise RowError(f"its answer {letter} is none of its {len(options)} options")
    images = context.read_images(row)
    return context.question(row, text[: start.start()].strip(), options, letter, images)


def _task(
    title: str,
    hub: str,
    split: str,
    convert: Convert,
    *,
    config: str = "",
    licence: str = "not stated",
    grader: str = "",
    rows: int = 0,
    may: str = "",
    **columns: str,
) -> Adapter:
    """Return the adapter of a task; roles `need` a column unless they are in `may`."""
    optional = {role: role for role in ("id", *may.split())}
    need = {"question": "question", "answer": "answer"}
    for role, column in {"image": "image", **columns}.items():
        (need if role in need else optional)[role] = column
    return Adapter(
        kind="questions", title=title, licence=licence, hub=hub, split=split, grader=grader,
        config=lambda name: name or config or None,
        forms=(Form(need=need, may=optional),), convert=convert,
        published=Published(rows, f"its {split} split") if rows else None,
    )  # fmt: skip


ADAPTERS = MappingProxyType(
    {
        "ai2d": _task("AI2D", "lmms-lab/ai2d", "test", _letters, rows=3088, options="options"),
        "chartqa": _task(
            "ChartQA", "lmms-lab/ChartQA", "test", _free("relaxed"), rows=2500,
            grader="relaxed", subject="type",
        ),
        "docvqa": _task(
            "DocVQA", "lmms-lab/DocVQA", "validation", _free("anls"), rows=5349,
            config="DocVQA", grader="anls", answer="answers", id="questionId",
        ),
        "infovqa": _task(
            "InfographicVQA", "lmms-lab/DocVQA", "validation", _free("anls"), rows=2801,
            config="InfographicVQA", grader="anls", answer="answers", id="questionId",
        ),
        "mathvision": _task(
            "MathVision", "MathLLMs/MathVision", "testmini", _mathvision, rows=304,
            grader="math", image="decoded_image", difficulty="level",
            may="options subject",
        ),
        "mathvista": _task(
            "MathVista", "AI4Math/MathVista", "testmini", _mathvista, rows=1000,
            licence="CC BY-SA 4.0", grader="number", image="decoded_image", id="pid",
            options="choices", type="answer_type", may="precision unit",
        ),
        "mmstar": _task(
            "MMStar", "Lin-Chen/MMStar", "val", _inline, id="index", subject="category", rows=1500,
        ),
        "realworldqa": _task(
            "RealWorldQA", "lmms-lab/RealWorldQA", "test", _inline, grader="exact", rows=765,
        ),
        "scienceqa": _task(
            "ScienceQA, questions with an image", "lmms-lab/ScienceQA", "test", _letters, rows=2017,
            config="ScienceQA-IMG", options="choices", may="hint subject",
        ),
        "textvqa": _task(
            "TextVQA", "lmms-lab/textvqa", "validation", _free("vqa"), rows=5000,
            grader="vqa", answer="answers", id="question_id",
        ),
    }
)  # fmt: skip
