"""Files of other tools, one entry of `_SHIPPED` per format, recognised by their content.

A package adds a `Format` by name under the entry-point group `bon.formats`.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

from bon.benchmarks.rows import local_files
from bon.core.errors import BonError, suggestion
from bon.core.files import file_hash
from bon.core.plugins import Registry
from bon.formats import (
    inspect_ai,
    judge_outputs,
    lmms_eval,
    opencompass,
    reward_bench,
    vlmevalkit,
)
from bon.formats.base import TABLES, Format, columns_of

ADDED: Registry[Format] = Registry("bon.formats")
"""Formats of users and of other packages, by name."""

_SHIPPED = {
    form.name: form
    for form in (
        lmms_eval.FORMAT,
        inspect_ai.FORMAT,
        vlmevalkit.FORMAT,
        opencompass.FORMAT,
        reward_bench.FORMAT,
        *judge_outputs.FORMATS,
        *TABLES,
    )
}


def formats() -> list[Format]:
    """Return every format, those of users first, in the order in which they are tried."""
    added = (ADDED.get(name) for name in ADDED.names())
    return [*(form for form in added if form is not None), *_SHIPPED.values()]


def named(name: str) -> Format:
    """Return the format of that name."""
    known = {form.name: form for form in formats()}
    if name not in known:
        hint = suggestion(name, known, "see `bon list formats`", 0.4)
        raise BonError(f"no format {name!r}", hint)
    return known[name]


def recognise(path: Path, columns: Mapping[str, str] | None = None) -> Format:
    """Return the format of a file by its content; `answers` if unknown.

    Reading it as answers then names the missing column. `columns` maps roles to columns.
    """
    if not path.exists():
        raise BonError(f"no file {path}", "check the path")
    known = columns_of(path) if columns else set()
    if roles := {role for role, column in (columns or {}).items() if column in known}:
        table = next((form for form in TABLES if form.fits(known | roles)), None)
        if table is not None:
            return table
    return next((form for form in formats() if form.recognises(path)), _SHIPPED["answers"])


def forms_of(
    paths: Iterable[Path], name: str = "", columns: Mapping[str, str] | None = None
) -> list[tuple[Path, Format]]:
    """Return every file with its format, recognised or named; score tables with `columns` renamed.

    Raises:
        BonError: no such file or format, or two files of answers are equal: they would be two
            candidates of each question.
    """
    forms: list[tuple[Path, Format]] = []
    hashes: dict[str, Path] = {}
    for path in paths:
        form = named(name) if name else recognise(path, columns)
        if form.table != "answers":
            form = form.renamed(columns) if columns else form
        else:
            for file in local_files(path, None, None) if path.is_dir() else [path]:
                if (other := hashes.setdefault(file_hash(file), file)) is not file:
                    raise BonError(
                        f"{file} holds the same answers as {other}",
                        "give each file of answers once",
                    )
        forms.append((path, form))
    return forms
