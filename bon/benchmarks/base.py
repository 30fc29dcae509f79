"""What a benchmark file needs: columns by role, checked rows, records with content keys.

An adapter says in which forms its dataset comes (which column holds what) and turns one
`Row` into one record. Whatever is wrong with one row is a `RowError` and becomes a `BadRow`
that the run counts; only what is wrong with the whole dataset stops it.
"""

import ast
import base64
import binascii
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

from bon.core.images import ImageError, ImageStore
from bon.core.keys import content_key
from bon.core.records import ImageRef, PreferencePair, Question
from bon.experiment.config import DatasetSpec
from bon.experiment.letters import LETTERS

MAX_IMAGES = 7
IMAGE_COLUMNS = ",".join(["image", "images", *(f"image_{i}" for i in range(1, MAX_IMAGES + 1))])
"""Where images usually are; the role `image` may name several columns, in order."""


class RowError(ValueError):
    """One row cannot become a record."""


@dataclass(frozen=True, slots=True)
class BadRow:
    """A row that was left out, and why."""

    id: str
    reason: str


@dataclass(frozen=True, slots=True)
class Form:
    """Role -> column. A dataset is in this form when its first row has every `need`."""

    need: Mapping[str, str]
    may: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a dataset, read by role; `folder`: where image paths start, if it may hold any."""

    values: Mapping[str, Any]
    columns: Mapping[str, str]
    folder: Path | None
    number: int

    def get(self, role: str) -> Any:
        """What the row says for a role, None where it says nothing."""
        return self.values.get(self.columns.get(role, ""))

    def text(self, role: str) -> str:
        """The text of a role; empty where there is none."""
        value = self.get(role)
        return "" if value is None else str(value)

    def need(self, role: str) -> str:
        """Text that must be there and say something."""
        value = self.get(role)
        if not isinstance(value, str) or not value.strip():
            raise RowError(f"no text in column {self.columns.get(role, role)!r}")
        return value

    @property
    def id(self) -> str:
        """The dataset's label of the row, or its number."""
        return self.text("id") or f"row-{self.number}"


@dataclass(frozen=True)
class Context:
    """What is the same for all rows: where the data is from and where images go."""

    spec: DatasetSpec
    images: ImageStore
    seen: set[str] = field(default_factory=set)
    """What an adapter has met in any row and looks at after the last."""

    @property
    def label(self) -> str:
        """The name that records carry."""
        return self.spec.name or self.spec.benchmark

    def read_images(self, row: Row) -> tuple[ImageRef, ...]:
        """All images of a row in order; image i of `<image i>` is at place i - 1."""
        refs: list[ImageRef] = []
        for column, number in _image_columns(row.columns.get("image", "")):
            value = row.values.get(column)
            if number is not None and value is not None and number != len(refs) + 1:
                raise RowError(f"has {column} but {len(refs)} images before it")
            for one in value if isinstance(value, list) else [value]:
                if one is not None:
                    refs.append(self.images.add(image_bytes(one, row.folder)))
        return tuple(refs)

    def question(
        self,
        row: Row,
        *,
        text: str,
        options: Sequence[str],
        answer: str | None,
        images: tuple[ImageRef, ...],
        also: str = "",
        **meta: Any,
    ) -> Question:
        """A question with its content key; `also` is what else tells it from another."""
        hashes = [image.sha256 for image in images]
        source = [self.label, self.spec.revision or "", also]
        return Question(
            key=content_key("question", source, text, list(options), hashes),
            id=row.id,
            dataset=self.label,
            text=text,
            options=tuple(options),
            answer=answer,
            images=images,
            subject=row.text("subject"),
            difficulty=row.text("difficulty"),
            meta={name: value for name, value in meta.items() if value},
        )

    def pair(
        self,
        row: Row,
        *,
        prompt: str,
        chosen: str,
        rejected: str,
        group: str = "",
        tag: str = "",
        images: tuple[ImageRef, ...] | None = None,
        **meta: Any,
    ) -> PreferencePair:
        """A preference pair with its content key; `images` are by default all of the row's.

        The two responses are put in an order that depends on their texts alone: a place that
        told which one is better would help whoever prefers a place.
        """
        if chosen == rejected:
            raise RowError("both responses are the same text")
        images = self.read_images(row) if images is None else images
        first, second = sorted((chosen, rejected), key=lambda text: content_key("place", text))
        hashes = [image.sha256 for image in images]
        source = [self.label, self.spec.revision or ""]
        return PreferencePair(
            key=content_key("pair", source, prompt, hashes, [first, second]),
            id=row.id,
            dataset=self.label,
            prompt=prompt,
            responses=(first, second),
            preferred=0 if first == chosen else 1,
            images=images,
            group=group or row.text("group"),
            tag=tag or row.text("tag"),
            meta={name: value for name, value in meta.items() if value},
        )


@dataclass(frozen=True)
class Adapter:
    """One benchmark: what it is, where it is from, how a row of it becomes a record."""

    kind: Literal["questions", "pairs"]
    title: str
    licence: str
    forms: tuple[Form, ...]
    convert: Callable[[Context, Row], Question | PreferencePair]
    hub: str = ""
    citation: str = ""  # BibTeX, as the results and the report pass it on
    config: Callable[[str | None], str | None] = lambda config: config
    split: str | None = "test"
    files: tuple[str, ...] = ()
    """On the hub its rows name image files: these patterns are what to download of it."""
    check: Callable[[Context], None] | None = None
    """After the last row: refuses what only all rows together show."""


def parse_options(value: Any) -> tuple[str, ...]:
    """Options as texts, from a list or from a list written as a string."""
    if isinstance(value, str):
        try:
            value = ast.literal_eval(value.strip())
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            raise RowError("its options are not a list") from None
    if not isinstance(value, list | tuple):
        raise RowError("its options are not a list")
    if not 1 <= len(value) <= len(LETTERS):
        raise RowError(f"it has {len(value)} options, not 1 to {len(LETTERS)}")
    return tuple(str(option) for option in value)


def parse_letter(value: Any) -> str:
    """An answer that is written as one option letter."""
    letter = value.strip() if isinstance(value, str) else ""
    if len(letter) != 1 or letter not in LETTERS:
        raise RowError(f"its answer {value!r} is not an option letter")
    return letter


@cache
def _image_columns(names: str) -> tuple[tuple[str, int | None], ...]:
    """The columns that are named, each with the number of its image where it says one."""
    columns = [column.strip() for column in names.split(",")]
    numbers = [re.fullmatch(r"image_(\d+)", column) for column in columns]
    return tuple(
        (column, int(number[1]) if number else None)
        for column, number in zip(columns, numbers, strict=True)
    )


def image_bytes(value: Any, folder: Path | None) -> bytes:
    """The bytes of an image as datasets hold it: bytes, struct, path, data URL or base64."""
    if isinstance(value, Mapping):
        value = value.get("bytes") or value.get("path")
    if isinstance(value, bytes):
        return value
    if not isinstance(value, str) or not value.strip():
        raise ImageError("an image is empty")
    if value.startswith(("http://", "https://")):
        raise ImageError(f"image {value} is a URL: download it and give its path")
    if value.startswith("data:"):
        return _base64(value.partition(",")[2])
    if len(value) > 512:
        return _base64(value)
    if folder is None:
        raise ImageError(
            "an image is given as a file name: a dataset of the hub must hold its bytes"
        )
    try:
        return _beside(folder, value).read_bytes()
    except FileNotFoundError:
        raise ImageError(f"image {value} is missing") from None
    except (OSError, ValueError) as error:
        raise ImageError(f"image {value} cannot be read: {error}") from None


def _beside(folder: Path, name: str) -> Path:
    """The file of that name: beside the rows or in a folder images, there or one level up.

    As datasets are laid out that keep rows in data/ and images in images/.
    """
    places = [folder, folder / "images", folder.parent, folder.parent / "images"]
    return next((place / name for place in places if (place / name).is_file()), folder / name)


def _base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ImageError("an image is neither a path nor base64") from None
