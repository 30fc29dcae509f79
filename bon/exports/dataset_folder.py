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
from bon.exports.contents import Contents, file_name, hub_of, load_image, model_id, name_of
from bon.exports.licences import Licence, licence_of, licence_of_dataset

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
    "reward_benchmark": "accuracy of each rewarder on each reward benchmark",
    "policies": "pass@1, majority vote and oracle of each policy",
}


def write_hub_folder(contents: Contents, out: Path) -> list[Path]:
    """Write every table as data/NAME.parquet, README.md, the results and the report."""
    data = out / "data"
    data.mkdir(parents=True, exist_ok=True)
    shown = () if _withheld(contents) else _CONTENTS
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


def _withheld(contents: Contents) -> list[dict[str, str]]:
    """Return the name and licence of the tasks whose questions may not be passed on."""
    tasks = {name_of(t): licence_of_dataset(t) for t in contents.setup.experiment.questions}
    return [{"name": n, "licence": own.name} for n, own in tasks.items() if not own.shareable]


def _questions(contents: Contents) -> Iterator[dict[str, Any]]:
    leaked = dict(contents.store.query("SELECT key, leaked FROM questions WHERE active > 0"))
    for question in contents.store.questions():
        images = [load_image(ref) for ref in question.images]
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
            "images": [{"bytes": image.data, "path": file_name(image)} for image in images],
        }


def _card(contents: Contents, tables: Sequence[str]) -> str:
    """Return the dataset card with metadata for `datasets` and the hub."""
    sources = _sources(contents)
    free = all(licence.shareable and not licence.terms for _, _, licence in sources)
    metadata = {
        "license": "apache-2.0" if free else "other",
        "task_categories": ["visual-question-answering"],
        "tags": ["bon", "best-of-n", "reward-model", "preference"],
        "configs": [
            {
                "config_name": name,
                "data_files": [{"split": "train", "path": f"data/{name}.parquet"}],
                **({"default": True} if name == DEFAULT else {}),
            }
            for name in tables
        ],
    }
    results = contents.results
    complete = results.completeness is None or results.completeness.complete
    citations = "".join(f"\n```bibtex\n{entry}\n```\n" for entry in results.citations)
    return _CARD.read_text("utf-8").format(
        metadata=yaml.safe_dump(metadata, sort_keys=False, allow_unicode=True),
        name=results.run.name,
        finding=results.finding.sentence if complete else "The run is not complete.",
        version=results.run.bon_version,
        started=results.run.created,
        default=DEFAULT,
        tables="\n".join(f"| `{name}` | {TABLES[name]} |" for name in tables),
        restrictions="\n".join(f"- {line}" for line in _restrictions(contents, sources)),
        sources="\n".join(f"| {part} | {source} | {one.name} |" for part, source, one in sources),
        citations=f"\n## Citation\n{citations}" if citations else "",
    )


def _sources(contents: Contents) -> list[tuple[str, str, Licence]]:
    """Return (part, source, licence) of everything the tables derive from."""
    setup, experiment = contents.setup, contents.setup.experiment
    sources = [
        (name_of(spec), hub_of(spec) or "a file", licence_of_dataset(spec))
        for spec in (*experiment.questions, *experiment.pairs)
    ]
    for model in setup.models:
        developer, name = model_id(model.card)
        source = f"{developer}/{name}" if developer != "unknown" else name
        sources.append((model.card.name, source, licence_of(model.card.licence)))
    return sources


def _restrictions(contents: Contents, sources: Sequence[tuple[str, str, Licence]]) -> Iterator[str]:
    """Yield what to know before publishing the folder or training on it."""
    for part, _, licence in dict.fromkeys(sources):
        if licence.terms:
            yield f"**{part}** ({licence.name}): {licence.terms}"
    if withheld := ", ".join(task["name"] for task in _withheld(contents)):
        yield (
            f"Texts, options and images of {withheld}, and the report, are left out: join by `id`."
        )
    yield "Texts of preference pairs are never included: join by `id`."
    yield (
        "Answers of candidates are outputs of their policy: its licence says what may be trained "
        "on them, and whoever publishes this folder is responsible for that."
    )
    leaked = contents.results.leaks.num_questions
    if leaked:
        yield (
            f"{leaked} questions are also in a reward benchmark (`leaked`): it cannot evaluate "
            "models trained on them."
        )
