"""Files of other tools, one entry of `FORMATS` per format, recognised by their content."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from bon.benchmarks.base import absent, columns_in, named_columns
from bon.benchmarks.rows import local_files
from bon.core.errors import BonError
from bon.core.files import file_hash
from bon.core.registry import Registry
from bon.formats import (
    inspect_ai,
    judge_outputs,
    layouts,
    lmms_eval,
    opencompass,
    reward_bench,
    vlmevalkit,
)
from bon.formats.answers import FORM
from bon.formats.base import ROLES, TABLES, Format, first_row, renamed

FORMATS: Registry[Format] = Registry(
    "format",
    "bon.formats",
    lambda part: isinstance(part, Format),
    {
        form.name: form
        for form in (
            lmms_eval.FORMAT,
            inspect_ai.FORMAT,
            vlmevalkit.FORMAT,
            opencompass.FORMAT,
            *reward_bench.FORMATS,
            *judge_outputs.FORMATS,
            *layouts.FORMATS,
            *TABLES,
        )
    },
)
"""Every format by name, bon's own in the order in which they are tried, after those added."""


def recognise(path: Path, columns: Mapping[str, str] | None = None) -> Format:
    """Return the format of a file by its content; `answers` if unknown.

    Reading it as answers then names the missing column. `columns` maps roles to columns.
    """
    if not path.exists():
        raise BonError(f"no file {path}", "check the path")
    row, columns = first_row(path), columns or {}
    roles = [role for role, name in columns.items() if not absent(role, name, row)]
    row = dict.fromkeys(roles) | renamed(row, columns)

    def fits(form: Format) -> bool:
        return form.fits(row) if form.recognises is None else form.recognises(path)

    names = [*FORMATS.added, *FORMATS.shipped]
    for form in filter(fits, map(FORMATS.__getitem__, names)):
        return form
    return FORMATS["answers"]


def forms_of(
    paths: Iterable[Path], name: str = "", columns: Mapping[str, str] | None = None
) -> list[tuple[Path, Format]]:
    """Return every file with its format, recognised or named, and those of `columns` it has.

    Raises:
        BonError: no such file or format, or no file has a column of `columns` for its role; or two
            files of answers are equal: they would be two candidates of each question.
    """
    forms: list[tuple[Path, Format]] = []
    hashes: dict[str, Path] = {}
    for path in paths:
        form = FORMATS[name] if name else recognise(path, columns)
        if form.name == "answers" and not columns:
            first = first_row(path).keys()
            form = replace(form, bare={"id", "response"} <= first and "question" not in first)
        if form.table == "answers":
            for file in local_files(path, None, None) if path.is_dir() else [path]:
                if (other := hashes.setdefault(file_hash(file), file)) is not file:
                    raise BonError(
                        f"{file} holds the same answers as {other}",
                        "give each file of answers once",
                    )
        forms.append((path, form))
    return _with_columns(forms, columns) if columns else forms


def _with_columns(
    forms: Sequence[tuple[Path, Format]], columns: Mapping[str, str]
) -> list[tuple[Path, Format]]:
    """Assign named columns to the files that have them."""
    tables = []
    for path, form in forms:
        roles = {*FORM.need, *FORM.may} if form.table == "answers" else ROLES[form.table]
        row = next((row for _, row in form.rows(path) if isinstance(row, dict)), {})
        # Rows without a question get its columns later, where they are checked.
        later = [c for r, named in columns.items() for c in columns_in(r, named) if form.bare]
        tables.append((f"{path} ({form.name})", roles, [*row, *later]))
    own = named_columns(columns, tables)
    return [(path, form.renamed(one)) for (path, form), one in zip(forms, own, strict=True)]
