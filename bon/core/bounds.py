"""Types of values that a user writes, each with its bound."""

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, Field

from bon.core.text import CONTROL

MAX_NAME, MAX_ITEMS = 300, 1000


def plain(value: str) -> str:
    """Refuse control characters, which a terminal obeys."""
    if CONTROL.search(value):
        raise ValueError(f"{value[:60]!r} holds control characters", "leave them out")
    return value


def _plain_name(value: str) -> str:
    if ".." in plain(value).replace("\\", "/").split("/"):
        raise ValueError(f"{value[:60]!r} leads to another folder", "name it without `..`")
    return value


Name = Annotated[str, Field(max_length=MAX_NAME), AfterValidator(_plain_name)]
"""A name, or a line."""
Location = Annotated[str, Field(max_length=1000), AfterValidator(plain)]
"""A path, an address, or an id on the hub."""
Word = Annotated[str, Field(max_length=2000)]
"""A text to look for, or to pass on."""
Text = Annotated[str, Field(max_length=100_000)]
Number = Annotated[float, Field(ge=-1e9, le=1e9)]
_Scalar = bool | Annotated[int, Field(ge=-(10**9), le=10**9)] | Number | Word | None
_Row = Annotated[list[_Scalar], Field(max_length=MAX_ITEMS)]
_Inner = Annotated[dict[Name, _Scalar | _Row], Field(max_length=MAX_ITEMS)]
if TYPE_CHECKING:
    Values = dict[str, Any]
else:
    Values = Annotated[dict[Name, _Scalar | _Row | _Inner], Field(max_length=MAX_ITEMS)]
"""Settings of another program."""
