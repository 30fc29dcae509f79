"""The interface of benchmarks: columns by role, validated rows, records with content keys.

An adapter lists the forms of its dataset (which column holds what) and converts one `Row` into
one record. A `RowError` becomes a `BadRow` that the run counts; errors of the dataset stop it.
"""

import ast
import base64
import binascii
import io
import re
import tokenize
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from bon.core.errors import BonError
from bon.core.images import ImageError, ImageStore
from bon.core.keys import content_key
from bon.core.records import ImageRef, PreferencePair, Question
from bon.core.text import LETTERS
from bon.experiment.config import DatasetSpec

MAX_IMAGES = 7
IMAGE_COLUMNS = ",".join(["image", "images", *(f"image_{i}" for i in range(1, MAX_IMAGES + 1))])
"""The usual columns of images; the role `image` may name several, in order."""
SEVERAL = frozenset({"image", "options", "score"})
"""Roles that may name several columns, separated by commas."""


def columns_in(role: str, named: str) -> list[str]:
    """Return the columns that a role names."""
    return [column.strip() for column in named.split(",")] if role in SEVERAL else [named]


def absent(role: str, named: str, row: Iterable[str]) -> list[str]:
    """Return the columns of a role that a row does not have."""
    return [column for column in columns_in(role, named) if column and column not in row]


def named_columns(
    columns: Mapping[str, str], tables: Sequence[tuple[str, Collection[str], Collection[str]]]
) -> list[dict[str, str]]:
    """Return the named columns of roles that each table (its name, roles and columns) has.

    Raises:
        BonError: no table has a role, or a column that is named for it.
    """
    found = [
        {r: c for r, c in columns.items() if r in roles and not absent(r, c, there)}
        for _, roles, there in tables
    ]
    for role, named in columns.items():
        if not any(role in own for own in found):
            name, roles, there = next((t for t in tables if role in t[1]), tables[0])
            for lacking in absent(role, named, there):
                problem = f"columns: {name} has no column {lacking!r} for {role}"
                raise BonError(problem, f"there are {', '.join(there)}")
            fix = f"roles: {', '.join(sorted(roles))}"
            raise BonError(f"columns: {name} has no role {role!r}", fix)
    return found


class RowError(ValueError):
    """A row that cannot be converted."""


@dataclass(frozen=True, slots=True)
class BadRow:
    """An excluded row and the reason."""

    id: str
    reason: str


@dataclass(frozen=True, slots=True)
class Form:
    """Columns by role. A dataset has this form if its first row has every column of `need`."""

    need: Mapping[str, str]
    may: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a dataset by role; `folder`: base of image paths, if these are allowed."""

    values: Mapping[str, Any]
    columns: Mapping[str, str]
    folder: Path | None
    number: int

    def get(self, role: str) -> Any:
        """Return the value of a role, or None."""
        return self.values.get(self.columns.get(role, ""))

    def has(self, role: str) -> bool:
        """Whether a column of a role has a value."""
        columns = columns_in(role, self.columns.get(role, ""))
        return any(self.values.get(column) not in (None, "") for column in columns)

    def text(self, role: str) -> str:
        """Return the text of a role; empty if missing."""
        value = self.get(role)
        return "" if value is None else str(value)

    def need(self, role: str) -> str:
        """Return the text of a role, which must not be empty."""
        value = self.get(role)
        if not isinstance(value, str) or not value.strip():
            raise RowError(f"no text in column {self.columns.get(role, role)!r}")
        return value

    @property
    def id(self) -> str:
        """The row's id, or its number."""
        return self.text("id") or f"row-{self.number}"


@dataclass(frozen=True)
class Context:
    """State shared by all rows: the dataset and the image store."""

    spec: DatasetSpec
    images: ImageStore
    seen: set[str] = field(default_factory=set)
    """What an adapter collects for its final check."""

    def read_images(self, row: Row) -> tuple[ImageRef, ...]:
        """Return the images of a row in order; `<image i>` is at index i - 1."""
        refs: list[ImageRef] = []
        for column in columns_in("image", row.columns.get("image", "")):
            value = row.values.get(column)
            number = re.fullmatch(r"image_(\d+)", column)
            if number and value is not None and int(number[1]) != len(refs) + 1:
                raise RowError(f"has {column} but {len(refs)} images before it")
            for image in value if isinstance(value, list) else [value]:
                if image is not None:
                    refs.append(self.images.add(image_bytes(image, row.folder)))
        return tuple(refs)

    def question(
        self,
        row: Row,
        text: str,
        options: Sequence[str],
        answer: str | None,
        images: tuple[ImageRef, ...],
        also: str = "",
        **meta: Any,
    ) -> Question:
        """Return a question with its content key, to which `also` is added."""
        hashes = [image.sha256 for image in images]
        source = [self.spec.title, self.spec.revision or "", also]
        return Question(
            key=content_key("question", source, text, list(options), hashes),
            id=row.id,
            dataset=self.spec.title,
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
        prompt: str,
        chosen: str,
        rejected: str,
        group: str = "",
        tag: str = "",
        images: tuple[ImageRef, ...] | None = None,
        **meta: Any,
    ) -> PreferencePair:
        """Return a preference pair with its content key; `images` default to those of the row.

        Responses are ordered by a hash of their texts, so that the position reveals nothing.
        """
        if chosen == rejected:
            raise RowError("both responses are the same text")
        images = self.read_images(row) if images is None else images
        first, second = sorted((chosen, rejected), key=lambda text: content_key("place", text))
        hashes = [image.sha256 for image in images]
        source = [self.spec.title, self.spec.revision or ""]
        return PreferencePair(
            key=content_key("pair", source, prompt, hashes, [first, second]),
            id=row.id,
            dataset=self.spec.title,
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
    """One benchmark: description, source, and conversion of its rows.

    citation: BibTeX. config: published name of a config. files: patterns to download if rows name
    image files. check: called after the last row for errors of the whole dataset. grader: that of
    its free answers, if it has any. published: size of the release, known without reading
    it. steps: its labels are of steps, which stepwise rewarders judge alone.
    """

    kind: Literal["questions", "pairs"]
    title: str
    licence: str
    forms: tuple[Form, ...]
    convert: Callable[[Context, Row], Question | PreferencePair | list[PreferencePair]]
    hub: str = ""
    citation: str = ""
    config: Callable[[str | None], str | None] = lambda config: config
    split: str | None = "test"
    files: tuple[str, ...] = ()
    check: Callable[[Context], None] | None = None
    grader: str = ""
    published: "Published | None" = None
    steps: bool = False


def bibtex(key: str) -> str:
    """Return an entry of citations.bib."""
    entries = Path(__file__).with_name("citations.bib").read_text(encoding="utf-8").split("\n\n")
    return next(entry.strip() for entry in entries if f"{{{key}," in entry)


@dataclass(frozen=True)
class Published:
    """Size of a release: rows of its test split, and images per row."""

    rows: int
    note: str
    images_per_row: float = 1.0


def parse_options(value: Any) -> tuple[str, ...]:
    """Parse options from a list, a list or a numpy array written as a string, or objects."""
    if isinstance(value, str):
        try:
            written, value = value.strip(), ast.literal_eval(value.strip())
            tokens = list(tokenize.generate_tokens(io.StringIO(written).readline))
        except (
            ValueError,
            SyntaxError,
            TypeError,
            MemoryError,
            RecursionError,
            tokenize.TokenError,
        ):
            raise RowError("its options are not a list") from None
        texts = [token.string for token in tokens if token.type == tokenize.STRING]
        if (
            isinstance(value, list)
            and len(texts) > len(value)
            and all(t.string != "," for t in tokens)
        ):
            # Python would glue the elements of a printed array together.
            value = list(map(ast.literal_eval, texts))
    value = _texts_of(value)
    if not isinstance(value, list | tuple):
        raise RowError("its options are not a list")
    if not 1 <= len(value) <= len(LETTERS):
        raise RowError(f"it has {len(value)} options, not 1 to {len(LETTERS)}")
    return tuple(str(option) for option in value)


def _texts_of(value: Any) -> Any:
    """Return the texts of options given as objects with a label and a text; RowError otherwise."""
    if isinstance(value, Mapping):
        if {"label", "text"} <= value.keys():
            pairs = list(zip(value["label"], value["text"], strict=True))
        else:
            pairs = list(value.items())
    elif isinstance(value, list | tuple) and any(isinstance(one, Mapping) for one in value):
        if not all(isinstance(one, Mapping) and {"label", "text"} <= one.keys() for one in value):
            raise RowError("its options are objects, not texts")
        pairs = [(one["label"], one["text"]) for one in value]
    else:
        return value
    if [str(label).strip() for label, _ in pairs] != list(LETTERS[: len(pairs)]):
        raise RowError(
            f"the labels of its options are not A, B, …: {[label for label, _ in pairs]}"
        )
    return [text for _, text in pairs]


def lettered(values: Sequence[Any]) -> tuple[str, ...]:
    """Return options in columns of their own, without empty ones at the end; () without any."""
    filled = [number for number, value in enumerate(values, 1) if value not in (None, "")]
    if filled != [*range(1, len(filled) + 1)]:
        raise RowError("an option is empty and a later one is not, so letters would change")
    return parse_options(list(values[: len(filled)])) if filled else ()


def parse_letter(value: Any) -> str:
    """Parse an option letter."""
    letter = value.strip() if isinstance(value, str) else ""
    if len(letter) != 1 or letter not in LETTERS:
        raise RowError(f"its answer {value!r} is not an option letter")
    return letter


def image_bytes(value: Any, folder: Path | None) -> bytes:
    """Return the bytes of an image given as bytes, struct, path, data URL or base64."""
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
    # Next to the rows or in a folder `images`, there or one level up.
    folders = [folder, folder / "images", folder.parent, folder.parent / "images"]
    try:
        places = (path / value for path in folders if (path / value).is_file())
        return next(places, folder / value).read_bytes()
    except FileNotFoundError:
        raise ImageError(f"image {value} is missing") from None
    except (OSError, ValueError) as error:
        raise ImageError(f"image {value} cannot be read: {error}") from None


def _base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ImageError("an image is neither a path nor base64") from None
