"""A pool of candidates to share: the same answers for everyone's rewarders.

`policies: [{pool: FOLDER}]` reads it (bon.work.imported_cards), since a row has the columns of
answers (bon.formats.answers). A question that may not be passed on is left out of its row but for
its id and right answer, and its benchmark is named beside the pool.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import yaml

from bon.benchmarks import BENCHMARKS
from bon.core.dataset_features import IMAGE, write_rows
from bon.core.errors import BonError
from bon.core.files import write_atomic
from bon.core.records import BY_MODEL, Question
from bon.experiment.cards import Loaded
from bon.experiment.config import IMPORTED, DatasetSpec, PolicyCard
from bon.exports.contents import Contents, file_name
from bon.exports.licences import licence_of, licence_of_dataset
from bon.exports.preferences import load_image
from bon.formats.question_join import row_of
from bon.formats.score_tables import WITHOUT_TEXT
from bon.graders import grades_of
from bon.work.imported_cards import POLICIES, frozen

_TEXT, _TEXTS = pa.string(), pa.list_(pa.string())
_SHOWN = [("question", _TEXT), ("options", _TEXTS), ("images", pa.list_(IMAGE))]
_ROLES = [
    ("id", _TEXT), ("dataset", _TEXT), ("subject", _TEXT), ("topic_difficulty", _TEXT),
    ("cluster", _TEXT), ("answer", _TEXT), ("aliases", _TEXTS), ("grader", _TEXT),
    ("tolerance", _TEXT), ("unit", _TEXT), ("rubric", _TEXT), ("response", _TEXTS),
    ("parsed", _TEXTS), ("correct", pa.list_(pa.bool_())), ("finish", _TEXTS),
    ("num_tokens", pa.list_(pa.int64())),
]  # fmt: skip
_CARD = Path(__file__).with_name("pool.md")
_OUTPUTS = (
    "Answers of candidates are outputs of their policy: its licence says what may be trained "
    "on them, and whoever publishes this folder is responsible for that."
)


def write_pool(contents: Contents, out: Path) -> list[Path]:
    """Write data/POLICY.parquet, a row per question; the policies; and README.md."""
    setup, store = contents.setup, contents.store
    tasks = setup.experiment.questions
    sources = [(task.title, _hub(task), licence_of_dataset(task)) for task in tasks]
    hidden = sorted(name for name, _, licence in sources if not licence.shareable)
    columns = [*_ROLES, *(() if hidden else _SHOWN)]
    paths, policies = [], []
    for policy in setup.policies:
        path = out / "data" / f"{policy.card.name}.parquet"
        if store.has("candidates", "spec = ? AND finish = ?", (policy.spec, WITHOUT_TEXT)):
            raise BonError(
                f"the candidates of {policy.card.name} have no texts", "import their answers first"
            )
        paths.append(write_rows(_rows(contents, policy, columns), columns, path))
        policies.append(_policy(contents, policy))
    if not policies:
        raise BonError("this run has no candidates to share", "export one that has policies")
    sources += [(p["name"], p["source"], licence_of(p["licence"])) for p in policies]
    notes = [f"**{name}** ({own.name}): {own.terms}" for name, _, own in sources if own.terms]
    notes.append(_OUTPUTS)
    if hidden:
        notes.append(
            f"Texts, options and images of {', '.join(hidden)} are left out: name the "
            "benchmark under `questions:`."
        )
    free = all(licence.shareable and not licence.terms for _, _, licence in sources)
    configs: list[dict[str, Any]] = [
        {"config_name": name, "data_files": [{"split": "train", "path": f"data/{name}.parquet"}]}
        for name in (policy["name"] for policy in policies)
    ]
    configs[0]["default"] = True
    card = _CARD.read_text("utf-8").format(
        metadata=card_metadata(
            "apache-2.0" if free else "other", ["best-of-n", "reward-model", "preference"], configs
        ),
        name=setup.experiment.name,
        restrictions="\n".join(f"- {note}" for note in notes),
        sources="\n".join(f"| {name} | {source} | {own.name} |" for name, source, own in sources),
    )
    write_atomic(out / POLICIES, yaml.safe_dump({"policies": policies}, sort_keys=False))
    write_atomic(out / "README.md", card)
    return [*paths, out / POLICIES, out / "README.md"]


def _policy(contents: Contents, policy: Loaded[PolicyCard]) -> dict[str, Any]:
    """Return what names and cites a policy, and how its candidates were sampled."""
    card = policy.card
    kept = frozen(contents.store, "policies", card, policy.spec)
    return {
        **{key: value for key, value in kept.items() if key not in ("engine", "prompt", "model")},
        "source": source_of(card),
        "revision": card.revision,
        "sampling": card.sampling.model_dump(mode="json"),
        "prompt_text": policy.prompt.wording,
    }


def source_of(card: PolicyCard) -> str:
    """Return the model's id on the hub, or a name without any path of this machine."""
    if re.fullmatch(r"[\w-][\w.-]*/[\w.-]+", card.model):
        return card.model
    return card.model if re.fullmatch(r"[\w.-]+", card.model) else card.name


def _hub(spec: DatasetSpec) -> str:
    """Return the dataset of the hub, or "a file"."""
    if spec.path or spec.benchmark == IMPORTED:
        return "a file"
    return spec.hub or BENCHMARKS[spec.benchmark].hub or "a file"


def card_metadata(licence: str, tags: list[str], configs: list[dict[str, Any]]) -> str:
    """Return the metadata of a dataset card for `datasets` and the hub."""
    metadata = {
        "license": licence,
        "task_categories": ["visual-question-answering"],
        "tags": ["bon", *tags],
        "configs": configs,
    }
    return str(yaml.safe_dump(metadata, sort_keys=False, allow_unicode=True))


def _rows(
    contents: Contents, policy: Loaded[PolicyCard], columns: list[tuple[str, Any]]
) -> Iterator[dict[str, Any]]:
    names = {name for name, _ in columns}
    for question in contents.store.questions():
        rows = contents.store.candidates(policy.spec, question.key, policy.card.n)
        if not rows:
            continue
        by_index = {row.index: row for row in rows}
        found = [by_index.get(index) for index in range(max(by_index) + 1)]
        given = [row if row and row.outcome != "error" else None for row in found]
        read = policy.card.extractor != BY_MODEL and question.grader != BY_MODEL
        grade = dict(zip((row.key for row in rows), grades_of(question, rows), strict=True))
        row = row_of(question, images=False) | {
            "dataset": question.dataset,
            "images": _images(question) if "images" in names else None,
            "response": [row and row.text for row in given],
            "parsed": [row.answer if row and read else None for row in given],
            "correct": [row and (read or None) and grade[row.key].right for row in given],
            "finish": [row and row.finish for row in given],
            "num_tokens": [row and row.num_tokens for row in given],
        }
        yield {name: row.get(name) for name in names}


def _images(question: Question) -> list[dict[str, Any]]:
    """Return the images as `datasets` stores them, each named by its hash."""
    images = map(load_image, question.images)
    return [{"bytes": image.data, "path": file_name(image)} for image in images]
