"""YAML as plain values, the place where each was written, and limits against hostile files.

Aliases count as if written out, so that nine lines cannot stand for a billion values; a key that
occurs twice is an error, where YAML silently keeps the last.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from bon.core.errors import BonError
from bon.core.files import read_text
from bon.core.validation import Origin

MAX_BYTES = 1_000_000
MAX_DEPTH = 32
MAX_VALUES = 20_000

_TAG = "tag:yaml.org,2002:"
_PLAIN = {_TAG + name for name in ("str", "int", "float", "bool", "null", "map", "seq", "merge")}
_SURROGATE = re.compile("[\ud800-\udfff]")


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Safe YAML of plain values: Yes and No stay words, a date stays text."""


_Loader.yaml_implicit_resolvers = {
    letter: [(tag, pattern) for tag, pattern in entries if tag in _PLAIN - {_TAG + "bool"}]
    for letter, entries in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(
    _TAG + "bool", re.compile(r"^(true|True|TRUE|false|False|FALSE)$"), list("tTfF")
)


@dataclass(frozen=True)
class Document:
    """A mapping and where it was written."""

    data: dict[str, Any]
    origin: Origin = field(default_factory=lambda: Origin("experiment"))


def load_yaml(text: str, name: str = "YAML") -> Any:
    """Parse a YAML text; a BonError names the line."""
    return _load(text, name)[0]


def read_yaml(path: Path) -> dict[str, Any]:
    """Read the mapping in a YAML file; a BonError names the line."""
    return read_document(path).data


def read_document(path: Path) -> Document:
    """Read the mapping in a YAML file with the place of every key."""
    if path.is_dir():
        inside = path / "experiment.yaml"
        fix = f"did you mean {inside}?" if inside.is_file() else "name a YAML file in it"
        raise BonError(f"{path} is a folder, not a YAML file", fix)
    text = read_text(path, MAX_BYTES)
    data, places = _load(text, str(path))
    if not isinstance(data, dict):
        kind = "nothing" if data is None else "a list" if isinstance(data, list) else "one value"
        raise BonError(
            f"{path} holds {kind}, not a mapping",
            "write one `key: value` per line without indentation",
        )
    return Document(data, Origin(str(path), places))


def _load(text: str, name: str) -> tuple[Any, dict[tuple[str, ...], str]]:
    """Return the value of a text and the place of every key and item."""
    if len(text) > MAX_BYTES:
        raise BonError(f"{name} has more than {MAX_BYTES:,} bytes", "name a smaller file")
    values = depth = 0
    places: dict[tuple[str, ...], str] = {}
    try:
        for event in yaml.parse(text, _Loader):  # before anything recursive sees the text
            values += isinstance(event, yaml.NodeEvent)
            depth += isinstance(event, yaml.CollectionStartEvent)
            depth -= isinstance(event, yaml.CollectionEndEvent)
            _check_size(values, depth, _place(name, event.start_mark))
        loader = _Loader(text)
        node = loader.get_single_node()
        if node is None:
            return None, {}
        for path, place in _places(node, name, (), ()):
            places[path] = place
            _check_size(len(places), 0, place)
        # Merge keys are resolved in the node.
        return loader.construct_document(node), {(): _place(name, node.start_mark), **places}
    except yaml.MarkedYAMLError as error:
        raise _syntax_error(error, name) from None
    except yaml.YAMLError as error:
        message = " ".join(str(error).split())[:200]
        raise BonError(f"{name}: not YAML: {message}", "save it as plain text") from None
    except ValueError:  # Python's limit on the digits of an integer
        raise BonError(f"{name}: a number with thousands of digits", "quote it") from None


def _check_size(values: int, depth: int, place: str) -> None:
    if values > MAX_VALUES:
        problem = f"{place}: more than {MAX_VALUES:,} values, aliases (*name) written out"
        raise BonError(problem, "use fewer aliases")
    if depth > MAX_DEPTH:
        raise BonError(f"{place}: nested deeper than {MAX_DEPTH} levels", "flatten it")


def _places(
    node: yaml.Node, name: str, path: tuple[str, ...], above: tuple[yaml.Node, ...]
) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the place of every key and item, aliases written out; refuse what is not plain."""
    place = _place(name, node.start_mark)
    if any(node is parent for parent in above):
        raise BonError(f"{place}: an alias to something that contains it", "write the value out")
    _check_size(0, len(above), place)
    if node.tag not in _PLAIN:
        tag = node.tag.replace(_TAG, "!!")
        raise BonError(f"{place}: the tag {tag} is not supported", "write plain values")
    if isinstance(node, yaml.ScalarNode):
        if "\0" in node.value or _SURROGATE.search(node.value):
            problem = f"{place}: a text with a null character or half a surrogate pair"
            raise BonError(problem, "remove it")
        if ":" in node.value and node.tag in (_TAG + "int", _TAG + "float"):
            raise BonError(f"{place}: {node.value[:40]} is a number in base 60", "quote it")
        return
    entries = [(str(i), item, item) for i, item in enumerate(node.value)]
    if isinstance(node, yaml.MappingNode):
        _check_keys(node, name)
        entries = [(key.value, key, value) for key, value in node.value]
    for step, key, value in entries:
        yield (*path, step), _place(name, key.start_mark)
        yield from _places(value, name, (*path, step), (*above, node))


def _check_keys(node: yaml.MappingNode, name: str) -> None:
    """Refuse keys that are no text or written twice; numbers become text, as in JSON."""
    lines: dict[str, int] = {}
    for key, _ in node.value:
        place = _place(name, key.start_mark)
        if not isinstance(key, yaml.ScalarNode):
            raise BonError(f"{place}: a list or mapping as a key", "quote it, if it is text")
        if key.value in lines:
            problem = f"{place}: the key {key.value!r} is written twice, first in line "
            raise BonError(f"{problem}{lines[key.value]}", "keep one of the two")
        lines[key.value] = key.start_mark.line + 1
        list(_places(key, name, (), ()))
        if key.tag != _TAG + "merge":
            key.tag = _TAG + "str"


_FIXES = (
    ("cannot start any token", "indent with spaces, and quote a text that begins with @, ` or %"),
    ("single document", "remove the line `---`"),
    ("undefined alias", "quote a text that begins with *"),
    ("", "check brackets, quotes and indentation; quote a text that holds `: ` or ` #`"),
)
"""Part of a parser's message -> fix."""


def _syntax_error(error: yaml.MarkedYAMLError, name: str) -> BonError:
    problem = " ".join((error.problem or "cannot be read").split())
    context = f" ({error.context})" if error.context else ""
    fix = next(fix for part, fix in _FIXES if part in problem + context)
    place = _place(name, error.problem_mark or error.context_mark)
    return BonError(f"{place}: not valid YAML: {problem}{context}", fix)


def _place(name: str, mark: Any) -> str:
    if mark is None or name.startswith("--"):  # a command-line option has no lines
        return name
    return f"{name}:{mark.line + 1}:{mark.column + 1}"
