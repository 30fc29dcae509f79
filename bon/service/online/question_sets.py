"""The operator's question sets: `bon://SET/ID` in a label names a question by its id.

So a judge that sees images works behind protocols that carry text alone. An id with characters
that end a word (spaces, quotes, `|`) is percent-encoded.
"""

import logging
import os
import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote

from bon.benchmarks import load_questions
from bon.core.errors import BonError
from bon.core.images import ImageStore
from bon.core.records import Question
from bon.engines.base import ImagePart, Message
from bon.experiment.config import DatasetSpec
from bon.policies.prompting import question_block
from bon.service.errors import ApiError
from bon.service.online.selector import Conversation

log = logging.getLogger("bon.service")
_NAMED = re.compile(r"""bon://([A-Za-z0-9._-]+)/([^\s"'|<>,}\]]+)""")


QuestionSets = Mapping[str, Mapping[str, Question]]
"""Every set's questions by id; images stay on disk."""


def named_question(sets: QuestionSets, label: str) -> Conversation | None:
    """Return the question that a label names, if it names one; 422 if it does not exist."""
    match = _NAMED.search(label)
    if match is None:
        return None
    name, key = match[1], unquote(match[2])
    fix = "`online.sets` lists the question sets"
    if name not in sets:
        known = ", ".join(sorted(sets)) or "none"
        raise ApiError(422, f"no question set {name!r}; there are: {known}", fix)
    if (question := sets[name].get(key)) is None:
        raise ApiError(422, f"the question set {name} has no question {key[:100]!r}", fix)
    parts = [ImagePart(ref.sha256, Path(ref.path).read_bytes()) for ref in question.images]
    shown = question_block(question)
    return Conversation(
        (Message("user", (*parts, shown)),), question.options, shown, question.answer
    )


def read_set(name: str, spec: DatasetSpec, base: Path, images: Path) -> dict[str, Question]:
    """Read a set, with a path relative to `base`, and store its images."""
    if spec.path is not None:
        path = (base / os.path.expanduser(spec.path)).resolve()
        spec = spec.model_copy(update={"path": str(path)})
    questions: dict[str, Question] = {}
    unreadable = 0
    for row in load_questions(spec, ImageStore(images)):
        if not isinstance(row, Question):
            unreadable += 1
        elif row.id in questions:
            raise BonError(
                f"online.sets.{name}: two questions have the id {row.id!r}",
                "labels name questions by id: give each its own",
            )
        else:
            questions[row.id] = row
    counts = {"questions": len(questions), "unreadable": unreadable}
    log.info("question set", extra={"set": name, **counts})
    return questions
