"""A folder for the hub with everything of a run that may be published.

`datasets.load_dataset(FOLDER, NAME)` loads each table. Texts and images whose licence does not
permit redistribution (bon.exports.licences) are left out, and with them the report, which shows
them; rows keep ids and keys. Texts of preference pairs are never included.
"""

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from bon.analysis.artifacts import frames
from bon.core.dataset_features import IMAGE, write_rows
from bon.core.records import Question
from bon.experiment.cards import Loaded
from bon.experiment.config import DatasetSpec
from bon.exports.contents import Contents, file_name, hub_of, load_image, model_id, name_of
from bon.exports.licences import Licence, licence_of, licence_of_dataset

Source = tuple[str, str, Licence]
"""The name of a part, where it comes from, and its licence."""
_TEXT = pa.string()
_QUESTIONS = [
    ("question", _TEXT), ("id", _TEXT), ("dataset", _TEXT), ("subject", _TEXT),
    ("difficulty", _TEXT), ("answer", _TEXT), ("leaked", pa.bool_()),
]  # fmt: skip
_CONTENTS = [("text", _TEXT), ("options", pa.list_(_TEXT)), ("images", pa.list_(IMAGE))]
DEFAULT = "candidates"
_CARD = Path(__file__).with_name("dataset_folder.md")
TABLES = {
    "questions": "one row per question: key, label, answer, and its text and images if they may "
    "be redistributed",
    "candidates": "one row per sampled answer: text, extracted letter, correctness",
    "pairs": "one row per preference pair of a reward benchmark, without its texts",
    "judgements": "one row per raw verdict or score; `first` and `second` are text keys in the "
    "order shown",
    "rewarders": "the rewarders",
    "choices": "each rewarder's choice per question; `picked` are indices of candidates",
    "best_of_n": "accuracy and gain of each rewarder under each selection rule",
    "benchmarks": "accuracy of each rewarder on each reward benchmark",
    "policies": "pass@1, majority vote and oracle of each policy",
}


def write_hub_folder(contents: Contents, out: Path) -> list[Path]:
    """Write every table as data/NAME.parquet, README.md, the results and the report."""
    data = out / "data"
    data.mkdir(parents=True, exist_ok=True)
    shown = () if withheld(contents) else _CONTENTS
    write_rows(_questions(contents), [*_QUESTIONS, *shown], data / "questions.parquet")
    tables = contents.tables
    texts = dict(contents.store.query("SELECT text_key, text FROM candidates"))
    by_name: dict[str, pd.DataFrame] = {
        "candidates": tables.candidates.assign(text=tables.candidates["text_key"].map(texts)),
        "pairs": tables.pairs,
        "judgements": tables.judgements,
        "rewarders": tables.rewarders,
        "choices": contents.choices,
        **frames(contents.results),
    }
    names = ["questions", *(name for name in TABLES if len(by_name.get(name, ())))]
    for name in names[1:]:
        table = pa.Table.from_pandas(by_name[name], preserve_index=False)
        pq.write_table(table.replace_schema_metadata(), data / f"{name}.parquet")
    page = out / "README.md"
    page.write_text(_card(contents, names), encoding="utf-8")
    files = ["results.json", "experiment.yaml"]
    run = contents.directory
    if shown:
        files.append("report.html")
        if (run / "report_files").is_dir():
            shutil.copytree(run / "report_files", out / "report_files", dirs_exist_ok=True)
    copies = [Path(shutil.copyfile(run / name, out / name)) for name in files]
    return [page, *(data / f"{name}.parquet" for name in names), *copies]


def withheld(contents: Contents) -> list[dict[str, str]]:
    """Return the name and licence of the tasks whose questions may not be passed on."""
    tasks = {name_of(t): licence_of_dataset(t) for t in contents.setup.experiment.questions}
    return [{"name": n, "licence": own.name} for n, own in tasks.items() if not own.shareable]


def _questions(contents: Contents) -> Iterator[dict[str, Any]]:
    leaked = dict(contents.store.query("SELECT key, leaked FROM questions WHERE active > 0"))
    for question in contents.store.questions():
        yield {
            "question": question.key,
            "id": question.id,
            "dataset": question.dataset,
            "subject": question.subject,
            "difficulty": question.difficulty,
            "answer": question.answer,
            "leaked": bool(leaked[question.key]),
            "text": question.text,
            "options": list(question.options),
            "images": images_of(question),
        }


def images_of(question: Question) -> list[dict[str, Any]]:
    """Return the images of a question as `datasets` stores them, each named by its hash."""
    images = map(load_image, question.images)
    return [{"bytes": image.data, "path": file_name(image)} for image in images]


def _card(contents: Contents, tables: Sequence[str]) -> str:
    """Return the dataset card with metadata for `datasets` and the hub."""
    experiment = contents.setup.experiment
    sources = sources_of((*experiment.questions, *experiment.pairs), contents.setup.models)
    results = contents.results
    complete = results.completeness is None or results.completeness.complete
    citations = "".join(f"\n```bibtex\n{entry}\n```\n" for entry in results.citations)
    return _CARD.read_text("utf-8").format(
        metadata=metadata_of(sources, tables, DEFAULT),
        name=results.run.name,
        finding=results.finding.sentence if complete else "The run is not complete.",
        version=results.run.bon_version,
        started=results.run.created,
        default=DEFAULT,
        tables="\n".join(f"| `{name}` | {TABLES[name]} |" for name in tables),
        restrictions="\n".join(f"- {line}" for line in _restrictions(contents, sources)),
        sources=table_of(sources),
        citations=f"\n## Citation\n{citations}" if citations else "",
    )


def metadata_of(sources: Sequence[Source], tables: Sequence[str], default: str) -> str:
    """Return the metadata of a dataset card for `datasets` and the hub."""
    free = all(licence.shareable and not licence.terms for _, _, licence in sources)
    metadata = {
        "license": "apache-2.0" if free else "other",
        "task_categories": ["visual-question-answering"],
        "tags": ["bon", "best-of-n", "reward-model", "preference"],
        "configs": [
            {
                "config_name": name,
                "data_files": [{"split": "train", "path": f"data/{name}.parquet"}],
                **({"default": True} if name == default else {}),
            }
            for name in tables
        ],
    }
    return str(yaml.safe_dump(metadata, sort_keys=False, allow_unicode=True))


def sources_of(specs: Sequence[DatasetSpec], models: Sequence[Loaded[Any]]) -> list[Source]:
    """Return the sources of everything that tables of these datasets and models derive from."""
    sources = [
        (name_of(spec), hub_of(spec) or "a file", licence_of_dataset(spec)) for spec in specs
    ]
    for model in models:
        developer, name = model_id(model.card)
        source = f"{developer}/{name}" if developer != "unknown" else name
        sources.append((model.card.name, source, licence_of(model.card.licence)))
    return sources


def table_of(sources: Sequence[Source]) -> str:
    """Return the rows of a card's table of sources."""
    return "\n".join(f"| {part} | {source} | {one.name} |" for part, source, one in sources)


def terms_of(sources: Sequence[Source]) -> Iterator[str]:
    """Yield what the licences require, and whose responses they are."""
    for part, _, licence in dict.fromkeys(sources):
        if licence.terms:
            yield f"**{part}** ({licence.name}): {licence.terms}"
    yield (
        "Answers of candidates are outputs of their policy: its licence says what may be trained "
        "on them, and whoever publishes this folder is responsible for that."
    )


def _restrictions(contents: Contents, sources: Sequence[Source]) -> Iterator[str]:
    """Yield what to know before publishing the folder or training on it."""
    yield from terms_of(sources)
    if names := ", ".join(task["name"] for task in withheld(contents)):
        yield f"Texts, options and images of {names}, and the report, are left out: join by `id`."
    yield "Texts of preference pairs are never included: join by `id`."
    leaked = contents.results.leaks.num_questions
    if leaked:
        yield (
            f"{leaked} questions are also in a reward benchmark (`leaked`): it cannot evaluate "
            "models trained on them."
        )
