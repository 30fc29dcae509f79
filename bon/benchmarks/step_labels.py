"""Benchmarks of step labels: whether a process reward model finds the wrong steps of a solution.

- `processbench`: the first wrong step, or none. A solution counts as right if its first step below
  `THRESHOLD` is that one. The score is the mean over subsets of F1, the harmonic mean of the
  accuracies on wrong and on right solutions (code/run_eval_prm_trl.py of its repository).
- `visualprocessbench`, `prmbench`: every step. The score is the mean of the F1 of right and of
  wrong steps; neutral steps do not count.

Such an item is a pair of twice the same response, which is judged once (bon.work.step_verdicts).
"""

import re
from types import MappingProxyType
from typing import Any

from bon.benchmarks.base import (
    IMAGE_COLUMNS,
    Adapter,
    Context,
    Form,
    Published,
    Row,
    RowError,
    bibtex,
)
from bon.core.keys import content_key
from bon.core.records import PreferencePair

SEPARATOR = "\n\n"
"""Between steps, in which it does not occur."""


def _steps(value: Any) -> list[str]:
    """Return the steps of a solution, none of which may be empty."""
    if not isinstance(value, list) or not value:
        raise RowError("its steps are not a list")
    steps = [re.sub(r"\s*\n\s*\n\s*", "\n", str(step).strip()) for step in value]
    if not all(steps):
        raise RowError(f"step {steps.index('') + 1} is empty")
    return steps


def _item(
    context: Context, row: Row, prompt: str, steps: list[str], group: str, **labels: Any
) -> PreferencePair:
    text, images = SEPARATOR.join(steps), context.read_images(row)
    source = [context.spec.title, context.spec.revision or ""]
    return PreferencePair(
        key=content_key("steps", source, prompt, [image.sha256 for image in images], text),
        id=row.id,
        dataset=context.spec.title,
        prompt=prompt,
        responses=(text, text),
        preferred=0,
        images=images,
        group=group,
        tag=row.text("tag"),
        meta=labels,
    )


def _first_error(context: Context, row: Row) -> PreferencePair:
    """Convert a solution whose label is the place of its first wrong step, or -1."""
    steps, label = _steps(row.get("steps")), row.get("label")
    if not isinstance(label, int) or not -1 <= label < len(steps):
        raise RowError(f"its label {label!r} is neither -1 nor one of its {len(steps)} steps")
    subset = row.text("group") or re.sub(r"-\d+$", "", row.id)
    group = f"{subset}: {'right' if label < 0 else 'wrong'} solutions"
    return _item(context, row, row.need("prompt"), steps, group, first_error=label)


def _all_steps(context: Context, row: Row) -> PreferencePair:
    """Convert a solution with a label for each step, above, below or equal to 0 (neutral)."""
    response = row.get("response")
    steps = _steps(response.get("steps") if isinstance(response, dict) else None)
    given = response.get("process_correctness")
    if not isinstance(given, list) or len(given) != len(steps):
        raise RowError("it does not have one label per step")
    prompt = row.need("prompt").replace("<image>\n", "").replace("<image>", "")
    return _item(context, row, prompt, steps, "", step_labels=[(x > 0) - (x < 0) for x in given])


def _errors(context: Context, row: Row) -> PreferencePair:
    """Convert a solution with the numbers, from 1, of its wrong steps."""
    steps, wrong = _steps(row.get("steps")), row.get("wrong") or []
    if not all(isinstance(n, int) and 1 <= n <= len(steps) for n in wrong):
        raise RowError(f"its wrong steps {wrong!r} are not among its {len(steps)} steps")
    labels = [-1 if n in wrong else 1 for n in range(1, len(steps) + 1)]
    return _item(context, row, row.need("prompt"), steps, "", step_labels=labels)


ADAPTERS = MappingProxyType(
    {
        "processbench": Adapter(
            kind="pairs", title="ProcessBench, first wrong steps", licence="not stated",
            convert=_first_error, hub="Qwen/ProcessBench", steps=True,
            split="gsm8k+math+olympiadbench+omnimath",
            citation=bibtex("processbench"), published=Published(3400, "in four subsets", 0),
            forms=(
                Form(
                    {"prompt": "problem", "steps": "steps", "label": "label"},
                    {"id": "id", "group": "subset", "tag": "generator"},
                ),
            ),
        ),
        "visualprocessbench": Adapter(
            kind="pairs", title="VisualProcessBench, all steps", licence="not stated",
            convert=_all_steps, steps=True,
            citation=bibtex("visualprocessbench"), published=Published(2866, "26,950 steps"),
            forms=(
                Form(
                    {"prompt": "question", "response": "response"},
                    {"id": "id", "tag": "data_source", "image": IMAGE_COLUMNS},
                ),
            ),
        ),
        "prmbench": Adapter(
            kind="pairs", title="PRMBench, all steps", licence="not stated", convert=_errors,
            hub="hitsmy/PRMBench_Preview", split="train", steps=True,
            citation=bibtex("prmbench"), published=Published(6216, "wrong ones", 0),
            forms=(
                Form(
                    {"prompt": "modified_question", "steps": "modified_process",
                     "wrong": "error_steps"},
                    {"id": "idx", "tag": "classification"},
                ),
            ),
        ),
    }
)  # fmt: skip
"""By name."""
