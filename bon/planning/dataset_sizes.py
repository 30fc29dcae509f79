"""How many rows the datasets of an experiment have, and how many tokens a row."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any, Literal

from PIL import Image

from bon.benchmarks import BENCHMARKS, BadRow, load_pairs, load_questions
from bon.benchmarks.rows import count_rows, local_files
from bon.core.errors import BonError
from bon.core.images import ImageStore
from bon.core.records import Question
from bon.experiment.cards import Loaded
from bon.experiment.config import IMPORTED, Card, DatasetSpec, TokensByArea
from bon.storage.store import Store
from bon.work.imported_cards import questions_in
from bon.work.preflight import reads_text_alone
from bon.work.setup import Setup, located

IN_RUN = "in the run"

Size = tuple[int, int]
"""Width and height in pixels."""

TYPICAL: tuple[Size, ...] = (
    (650, 640), (268, 140), (684, 290), (1150, 928), (248, 297), (534, 206), (1262, 634),
    (202, 158), (485, 232), (1399, 1123), (200, 154), (464, 480), (180, 146), (432, 273),
    (970, 1084), (432, 318), (650, 810), (600, 562), (252, 154), (282, 358), (384, 259),
    (720, 540), (1500, 1176), (177, 198), (504, 331),
)  # fmt: skip
"""Sizes of 25 images of MMMU-Pro, for datasets that are not local."""

ASSUMED_TOKENS = 1000
"""Tokens per image where the card does not tell."""

QUESTION_TOKENS = 200
"""Tokens of the text of a question that is not local."""

CANDIDATE_TOKENS = 350
"""Tokens of a candidate, and of a response of a pair that is not local."""

N_MEASURED = 25
"""Rows of a local dataset that are measured."""

CHARACTERS = 4
"""Characters a token, for texts."""


@dataclass(frozen=True)
class Rows:
    """The size of a dataset and its source."""

    name: str
    benchmark: str
    count: int
    known_from: str


class DatasetSizes:
    """The sizes of an experiment's datasets: stored in its run, counted in a file, or published.

    `questions`: all tasks together. `with_images`: those of "questions" and "pairs" that are known
    to have images.
    """

    def __init__(self, setup: Setup, store: Store | None) -> None:
        self._setup = setup
        self._store = store
        self.with_images: set[str] = set()
        self._images: dict[str, tuple[float, tuple[Size, ...]]] = {}
        self._texts: dict[str, tuple[float, float]] = {}  # tokens of a question, of a response
        tasks = [located(spec, setup.base) for spec in setup.experiment.questions]
        pairs = [located(spec, setup.base) for spec in setup.experiment.pairs]
        self.tasks = tuple(self._rows(spec, "questions") for spec in tasks)
        self.questions = _together(self.tasks)
        self.pairs = tuple(self._rows(spec, "pairs") for spec in pairs)
        for spec, rows in zip(tasks, self.tasks, strict=True):
            self._measure(spec, "questions", "questions", rows.count / max(self.questions.count, 1))
        for spec in pairs:
            self._measure(spec, "pairs", spec.title)

    def question_tokens(self, model: Loaded[Any], name: str = "questions") -> float:
        """Return the mean tokens of a question, or a pair's prompt, with the images it is shown."""
        per_row, sizes = self._images[name]
        blind = getattr(model.card, "image_filter", "") == "drop" or reads_text_alone(model)
        return self._texts[name][0] + (0.0 if blind else per_row * tokens_of(model.card, sizes))

    def response_tokens(self, name: str) -> float:
        """Return the mean tokens of a candidate ("questions") or a response of a pair."""
        return self._texts[name][1]

    def _rows(self, spec: DatasetSpec, table: str) -> Rows:
        name = spec.title
        if self._store is not None:
            several = table == "pairs" or len(self._setup.experiment.questions) > 1
            column = "benchmark" if table == "pairs" else "json_extract(data, '$.dataset')"
            where = f"active > 0 AND {column} = ?" if several else "active > 0"
            count = self._store.count(table, where, (name,) if several else ())
            if count:
                return Rows(name, spec.benchmark, count, IN_RUN)
        if spec.benchmark == IMPORTED:
            policies, base = self._setup.policies, self._setup.base
            count = max((questions_in(policy.card, base) for policy in policies), default=0)
            known = "counted where the answers are from"
        elif spec.path is not None:
            benchmark = BENCHMARKS[spec.benchmark]
            config, split = benchmark.config(spec.config), spec.split or benchmark.split
            count = sum(map(count_rows, local_files(Path(spec.path), config, split)))
            known = "counted in the file"
        elif spec.hub is None and (published := BENCHMARKS[spec.benchmark].published) is not None:
            count = published.rows
            known = f"not read: the published count ({published.note})"
        elif spec.limit is not None:
            count, known = spec.limit, "not read: at most `limit`"
        else:
            raise BonError(
                f"{spec.hub or spec.benchmark}: its rows cannot be counted without reading it",
                "set `limit`, or download it and set `path`",
            )
        return Rows(name, spec.benchmark, min(count, spec.limit or count), known)

    def _measure(
        self, spec: DatasetSpec, kind: Literal["questions", "pairs"], name: str, share: float = 1
    ) -> None:
        """Add a `share` of images per row, sizes and lengths of texts, measured if it is local."""
        per_row, sizes, texts = 1.0, list(TYPICAL), [float(QUESTION_TOKENS), CANDIDATE_TOKENS]
        known_images = spec.path is not None
        if spec.path is not None and spec.benchmark != IMPORTED:
            per_row, sizes, texts = first_rows(spec, kind)
        elif spec.columns.get("image") == "":
            per_row = 0.0
        elif spec.hub is None and spec.benchmark != IMPORTED:
            published = BENCHMARKS[spec.benchmark].published
            per_row = published.images_per_row if published else 1.0
            known_images = published is not None
        if known_images and per_row > 0:
            self.with_images.add(kind)
        before, known = self._images.get(name, (0.0, ()))
        self._images[name] = before + share * per_row, (*known, *(sizes or TYPICAL))
        question = self._texts.get(name, (0.0, 0.0))[0] + share * texts[0]
        self._texts[name] = question, texts[1] if kind == "pairs" else CANDIDATE_TOKENS


def tokens_of(card: Card, sizes: Sequence[Size] = TYPICAL) -> float:
    """Return the mean tokens per image of these sizes by the card, within 20% of processors.

    Models that cut an image into tiles take about the same for any image: a mean over `TYPICAL`.
    """
    known = card.image_tokens
    if not isinstance(known, TokensByArea):
        return ASSUMED_TOKENS if known is None else known
    most = card.engine_args.get("max_pixels") or known.most
    return fmean(math.ceil(min(width * height, most) / known.pixels) for width, height in sizes)


def _together(tasks: tuple[Rows, ...]) -> Rows:
    """Return the size of all tasks."""
    known = dict.fromkeys(rows.known_from for rows in tasks)
    name, benchmark = (
        " + ".join(x) for x in zip(*((r.name, r.benchmark) for r in tasks), strict=True)
    )
    return Rows(name, benchmark, sum(rows.count for rows in tasks), ", ".join(known))


def first_rows(
    spec: DatasetSpec, kind: Literal["questions", "pairs"]
) -> tuple[float, list[Size], list[float]]:
    """Return images per row, their sizes, and mean tokens of the texts of the first usable rows.

    The texts are those of a question with its options, or of a pair's prompt and of a response.
    """
    load = load_questions if kind == "questions" else load_pairs
    with TemporaryDirectory() as folder:
        usable = (row for row in load(spec, ImageStore(folder)) if not isinstance(row, BadRow))
        rows = list(islice(usable, N_MEASURED))
        texts = [
            ("\n".join((row.text, *row.options)),)
            if isinstance(row, Question)
            else (row.prompt, "".join(row.responses))
            for row in rows
        ]
        sizes = []
        for image in (image for row in rows for image in row.images):
            with Image.open(image.path) as opened:
                sizes.append(opened.size)
    count = max(1, len(rows))
    tokens = [sum(map(len, column)) / count / CHARACTERS for column in zip(*texts, strict=True)]
    return len(sizes) / count, sizes, [tokens[0], *(both / 2 for both in tokens[1:])]
