"""Single answers to label blind: drawn by `bon calibrate --next`, labelled on /annotate.

The folder holds prompts, images and answers, and neither verdicts nor the answer key.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import pandas as pd
import yaml

from bon.analysis.artifacts import csv_text
from bon.analysis.calibration.labelled import by_rewarder
from bon.analysis.calibration.next_items import next_items
from bon.core.errors import BonError
from bon.core.keys import content_key
from bon.curating.labelling.annotations import CANNOT, current
from bon.curating.propose import copy_image
from bon.curating.workbench import SingleAnswer, Workbench, open_workbench
from bon.formats.base import file_rows
from bon.policies.prompting import question_block
from bon.running.labelled_votes import label_values
from bon.storage.store import Store

Shown = tuple[str, str, str, Sequence[Path]]
"""Item, prompt, answer and images."""


def draw_answers(
    votes: pd.DataFrame,
    count: int,
    folder: Path,
    source: Path,
    columns: dict[str, str],
    grades: tuple[str, ...],
    seed: int,
) -> str:
    """Draw items to label into next.csv, their texts for /annotate; return what to do with them.

    Items of a table can be shown if it has the columns `question` and `text` (and `image`: paths).
    """
    single = votes[votes["kind"] == "answers"]
    judges = list(by_rewarder(votes if single.empty else single))
    if len(judges) > 1:
        raise BonError("--next needs one rewarder", "name it: --rewarder NAME")
    if current((bench := Workbench(folder)).annotations_path):
        raise BonError(f"{folder} is being labelled", "draw into another folder: --out")
    folder.mkdir(parents=True, exist_ok=True)
    drawn = next_items(judges[0], count, seed)
    (folder / "next.csv").write_text(csv_text(drawn), encoding="utf-8")
    probabilities = drawn.set_index("item")["probability"].to_dict()
    answers = {
        item: SingleAnswer(
            content_key("answer", item),
            item,
            prompt,
            tuple(filter(None, (copy_image(bench.images, path) for path in images))),
            (text,),
            probabilities[item],
        )
        for item, prompt, text, images in _shown(source, columns)
        if item in probabilities
    }
    if not answers:
        return f"items to label: {folder / 'next.csv'} (fill in `label`, then --labels)"
    recipe = {
        "runs": [str(source.resolve())],
        "annotating": {"annotators_per_item": 1, "grades": [*grades]},
    }
    bench.recipe_path.write_text(yaml.safe_dump(recipe, sort_keys=False), encoding="utf-8")
    pd.DataFrame(map(asdict, answers.values())).to_parquet(bench.answers_path, index=False)
    return (
        f"{len(answers)} answers to label: bon serve --annotate {folder}, then "
        f"/annotate/{bench.name}; afterwards bon calibrate {source} --labels {folder}"
    )


def _shown(source: Path, columns: dict[str, str]) -> Iterator[Shown]:
    if not source.is_dir():
        for folder, row in file_rows(source):
            assert isinstance(row, dict)  # read before
            row = {**row, **{role: row.get(name) for role, name in columns.items()}}
            if row.get("question") and row.get("text"):
                images = row.get("image") or []
                paths = [images] if isinstance(images, str) else list(images)
                base = Path(folder or "")
                yield str(row["item"]), row["question"], row["text"], [base / p for p in paths]
        return
    with Store(source, readonly=True) as store:
        questions = {question.key: question for question in store.questions()}
        for key, name, text in store.query(
            "SELECT DISTINCT question, text_key, text FROM candidates"
        ):
            if (question := questions.get(key)) is not None and text:
                images = [Path(image.path) for image in question.images]
                yield f"{key}/{name}", question_block(question), text, images


def labels_of_answers(folder: Path, passing: float | None = None) -> pd.DataFrame:
    """Return what people answered: columns item, label, annotator and probability."""
    bench = open_workbench(folder)
    answers = {answer.key: answer for answer in bench.shown if isinstance(answer, SingleAnswer)}
    rows = [
        (answers[row.item].item, row.choice, row.annotator, answers[row.item].probability)
        for row in current(bench.annotations_path)
        if row.item in answers and row.choice != CANNOT
    ]
    if not rows:
        raise BonError(
            f"nobody has labelled an answer of {folder}",
            f"bon serve --annotate {folder}, then open /annotate/{bench.name}",
        )
    frame = pd.DataFrame(rows, columns=["item", "label", "annotator", "probability"])
    return frame.assign(label=label_values(frame["label"], folder, "label", passing))
