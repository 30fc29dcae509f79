"""A pool of candidates to share: the same answers for everyone's rewarders.

`policies: [{pool: FOLDER}]` reads it (bon.work.imported_cards), since a row has the columns of
answers (bon.formats.answers). A question that may not be passed on is left out of its row but for
its id and right answer, and its benchmark is named beside the pool.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import yaml

from bon.core.dataset_features import IMAGE, write_rows
from bon.core.errors import BonError
from bon.core.files import write_atomic
from bon.core.records import BY_MODEL
from bon.experiment.cards import Loaded
from bon.experiment.config import PolicyCard
from bon.exports.contents import Contents, model_id
from bon.exports.dataset_folder import (
    images_of,
    metadata_of,
    sources_of,
    table_of,
    terms_of,
    withheld,
)
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


def write_pool(contents: Contents, out: Path) -> list[Path]:
    """Write data/POLICY.parquet, a row per question; the policies; and README.md."""
    setup, store = contents.setup, contents.store
    hidden = {task["name"] for task in withheld(contents)}
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
    sources = sources_of(setup.experiment.questions, setup.policies)
    names = [policy["name"] for policy in policies]
    restrictions = [*terms_of(sources)]
    if hidden:
        restrictions.append(
            f"Texts, options and images of {', '.join(sorted(hidden))} are left out: name the "
            "benchmark under `questions:`."
        )
    card = _CARD.read_text("utf-8").format(
        metadata=metadata_of(sources, names, names[0]),
        name=setup.experiment.name,
        restrictions="\n".join(f"- {line}" for line in restrictions),
        sources=table_of(sources),
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
        "source": "/".join(model_id(card)),
        "revision": card.revision,
        "sampling": card.sampling.model_dump(mode="json"),
        "prompt_text": policy.prompt.wording,
    }


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
            "images": images_of(question) if "images" in names else None,
            "response": [row and row.text for row in given],
            "parsed": [row.answer if row and read else None for row in given],
            "correct": [row and (read or None) and grade[row.key].right for row in given],
            "finish": [row and row.finish for row in given],
            "num_tokens": [row and row.num_tokens for row in given],
        }
        yield {name: row.get(name) for name in names}
