"""The templates of pages, with the filters that write numbers; compiled once per machine."""

from __future__ import annotations

from functools import cache, partial
from pathlib import Path
from pickle import UnpicklingError

from jinja2 import BytecodeCache, Environment, FileSystemLoader, StrictUndefined
from jinja2.bccache import Bucket

from bon.analysis.report import board
from bon.analysis.report import format as text
from bon.analysis.results.phrasing import names
from bon.core.files import cache_folder, write_atomic

HERE = Path(__file__).parent

plain_points = partial(text.signed, digits=1, sign=True, scale=100)
"""A difference in points, without a unit."""


class Compiled(BytecodeCache):
    """Compiled templates in the user's cache folder, as Python keeps compiled modules.

    Compiling takes longer than rendering. jinja2 checks that an entry is of this source and this
    Python; where the folder cannot be read or written, templates are compiled again.
    """

    def load_bytecode(self, bucket: Bucket) -> None:
        """Read what was kept for this template, if anything."""
        try:
            bucket.bytecode_from_string(self._path(bucket).read_bytes())
        except (OSError, RuntimeError, EOFError, UnpicklingError):  # RuntimeError: no home
            bucket.reset()

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Keep it for the next process."""
        try:
            path = self._path(bucket)
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(path, bucket.bytecode_to_string())
        except (OSError, RuntimeError):
            return

    def _path(self, bucket: Bucket) -> Path:
        return cache_folder() / "templates" / bucket.key


def environment(*folders: Path) -> Environment:
    """Templates of these folders and the report's."""
    env = Environment(
        loader=FileSystemLoader([*folders, HERE]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        optimized=False,  # what is kept must not hold what today's filters made of a constant
        bytecode_cache=Compiled(),
    )
    env.filters.update(
        share=text.share,
        percent=text.percent,
        points=text.points,
        loss=text.loss,
        coefficient=text.coefficient,
        correlation=text.correlation,
        number=text.number,
        p_value=text.p_value,
        names=partial(names, most=9),
        count=text.count,
        size=text.size,
        seconds=text.seconds,
        money=text.money,
        short=text.short,
        axis=board.axis_name,
        plain_points=plain_points,
    )
    return env


@cache
def pages() -> Environment:
    """The report's own templates."""
    return environment()
