"""Downstream tasks in their published form: the rows of tasks.yaml as adapters.

Prompts are the policy card's. Where the published scorer asks a model, its rules without the model
are used, and docs/benchmarks.md says so.
"""

import ast
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bon.benchmarks.base import (
    Adapter,
    Context,
    Form,
    Published,
    Row,
    RowError,
    bibtex,
    parse_letter,
    parse_options,
)
from bon.benchmarks.questions import free, read_letter
from bon.core.keys import content_key
from bon.core.records import Question
from bon.core.text import LETTERS, option_letters
from bon.experiment.yamlfile import read_yaml

TABLE: dict[str, dict[str, Any]] = read_yaml(Path(__file__).with_name("tasks.yaml"))

_OPTION = re.compile(
    r"(?:^|[\n,;])\s*\(?([A-Z])[).:]\s*([^\n;]*?)(?=[,;]\s*\(?[A-Z][).:]\s|\s*\n|;?\s*$)"
)
_START = re.compile(r"(?:\n?(?:Options|Choices):|\n)\s*\(?A[).:]")


def _free(context: Context, row: Row, grader: str, answers: dict[str, str]) -> Question:
    """Convert a row whose answer is free; "a <OR> b" is two right answers."""
    row = _with_answers(row, answers)
    return free(context, row, row.need("question"), context.spec.grader or grader or "exact")


def _with_answers(row: Row, answers: dict[str, str]) -> Row:
    """Return the row with its answer as a list or as the word that stands for it."""
    column, value = row.columns.get("answer", ""), row.get("answer")
    if isinstance(value, str) and "<OR>" in value:
        value = [part.strip() for part in value.split("<OR>")]
    elif isinstance(value, str) and value.startswith("['"):
        value = list(ast.literal_eval(value))
    elif str(value) in answers:
        value = answers[str(value)]
    return Row({**row.values, column: value}, row.columns, row.folder, row.number)


def _letters(context: Context, row: Row, *_: Any) -> Question:
    """Convert a row with options and a letter, an index from 0 as number or text, or a text."""
    options = tuple(
        re.sub(r"^[A-Z]\. ", "", option) for option in parse_options(row.get("options"))
    )
    answer = row.get("answer")
    if isinstance(answer, str):
        answer = re.sub(r"^\(([A-Z])\)$", r"\1", answer.strip())
        answer = int(answer) if answer.isdecimal() and answer not in options else answer
    hint, text = row.text("hint").strip(), row.need("question")
    text = f"Context: {hint}\n{text}" if hint else text
    return context.question(
        row, text, options, read_letter(answer, options), context.read_images(row)
    )


def _mixed(context: Context, row: Row, grader: str, answers: dict[str, str]) -> Question:
    """Convert a row with a letter if it has options, else with a free answer."""
    has = row.get("options") not in (None, "", "[]", [])
    return _letters(context, row) if has else _free(context, row, grader, answers)


def _mathvista(context: Context, row: Row, grader: str, answers: dict[str, str]) -> Question:
    """Convert a row of MathVista; a number is right if it rounds to the answer's precision."""
    if row.get("options"):
        return _letters(context, row)
    kind = row.text("type")
    if kind == "list":
        return _free(context, row, "exact", answers)
    precision = int(float(row.text("precision") or 0))
    margin = f"{0.5 / 10**precision:.10f}" if kind == "float" else ""
    return free(context, row, row.need("question"), context.spec.grader or grader, margin)


def _distractors(context: Context, row: Row, *_: Any) -> Question:
    """Convert a row with the right option and wrong ones; a hash of their texts orders them."""
    wrong = [row.values.get(column) for column in row.columns["options"].split(",")]
    right = row.need("answer").strip()
    texts = [right, *(str(text).strip() for text in wrong if text)]
    options = tuple(sorted(texts, key=lambda text: content_key("place", text)))
    letter = LETTERS[options.index(right)]
    return context.question(row, row.need("question"), options, letter, context.read_images(row))


def _inline(context: Context, row: Row, grader: str, answers: dict[str, str]) -> Question:
    """Convert a row whose question ends with its options: lines "A. cat" or "A: cat, B: dog"."""
    text = "\n".join(filter(None, (row.need("question").strip(), row.text("options").strip())))
    text = re.sub(r"\s*Please answer directly with[^\n]*$", "", text)
    start = _START.search(text)
    rest = re.sub("(?:Options|Choices):", "\n", text[start.start() :], count=1) if start else ""
    marked = _OPTION.findall(rest)
    letters, options = (tuple(part) for part in zip(*marked, strict=True)) if marked else ((), ())
    if "".join(letters) != LETTERS[: len(letters)]:
        raise RowError("its options are not in the order of their letters")
    if not start or not options:
        row = _with_answers(row, answers)
        return free(context, row, text, context.spec.grader or grader or "exact")
    letter = parse_letter(row.get("answer"))
    if letter not in option_letters(options):
        raise RowError(f"its answer {letter} is none of its {len(options)} options")
    images = context.read_images(row)
    return context.question(row, text[: start.start()].strip(), options, letter, images)


Convert = Callable[[Context, Row, str, dict[str, str]], Question]
CONVERSIONS: dict[str, Convert] = {
    "letters": _letters, "free": _free, "mixed": _mixed, "inline": _inline,
    "mathvista": _mathvista, "distractors": _distractors,
}  # fmt: skip


def task(name: str) -> Adapter:
    """Return the adapter of a row of tasks.yaml."""
    own = TABLE[name]
    columns = {role: role for role in ("question", "answer", "image", "id")} | own.get(
        "columns", {}
    )
    needed = {role: columns.pop(role) for role in ("question", "answer")}
    grader, answers, size = own.get("grader", ""), own.get("answers", {}), own.get("size", 0)
    convert = CONVERSIONS[own["rows"]]
    return Adapter(
        kind="questions", title=own["title"], licence=own.get("licence", "not stated"),
        hub=own.get("hub", ""), split=own["split"], grader=grader,
        config=lambda config: config or own.get("config"),
        forms=(Form(need=needed, may=columns),),
        convert=lambda context, row: convert(context, row, grader, answers),
        citation=bibtex(name),
        published=Published(size, f"its {own['split']} split") if size else None,
    )  # fmt: skip


ADAPTERS = {name: task(name) for name in TABLE}
"""By name."""
