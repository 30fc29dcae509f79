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
    try:
        _check_size(text, name)
        loader = _Loader(text)
        node = loader.get_single_node()
        if node is None:
            return None, {}
        _check_node(node, name, set())
        data = loader.construct_document(node)  # also resolves merge keys in the node
        return data, {(): _place(name, node.start_mark), **dict(_places(node, name, ()))}
    except yaml.MarkedYAMLError as error:
        raise _syntax_error(error, name) from None
    except yaml.YAMLError as error:
        message = " ".join(str(error).split())[:200]
        raise BonError(f"{name}: not YAML: {message}", "save it as plain text") from None
    except ValueError:  # Python's limit on the digits of an integer
        raise BonError(f"{name}: a number with thousands of digits", "quote it") from None


def _check_size(text: str, name: str) -> None:
    """Limit values and depth, aliases written out, before anything recursive sees the text."""
    sizes: dict[str | None, tuple[int, int] | None] = {}  # of anchors; None while open
    stack: list[list[Any]] = [["", 0, 0]]  # anchor, values and depth of open collections
    nodes = 0
    for event in yaml.parse(text, _Loader):
        place = _place(name, event.start_mark)
        if isinstance(event, yaml.CollectionStartEvent):
            stack.append([event.anchor, 1, 1])
            sizes[event.anchor] = None
            values = depth = 0
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, values, depth = stack.pop()
            sizes[anchor] = values, depth
            depth += 1
        elif isinstance(event, yaml.AliasEvent):
            if event.anchor in sizes and sizes[event.anchor] is None:
                raise BonError(
                    f"{place}: an alias to something that contains it", "write the value out"
                )
            values, depth = sizes.get(event.anchor) or (1, 0)
            depth += 1
        elif isinstance(event, yaml.ScalarEvent):
            values, depth = 1, 1
            sizes[event.anchor] = 1, 0
        else:
            continue
        nodes += isinstance(event, yaml.NodeEvent)
        stack[-1][1:] = stack[-1][1] + values, max(stack[-1][2], depth)
        if nodes > MAX_VALUES or stack[-1][1] > MAX_VALUES:
            raise BonError(
                f"{place}: more than {MAX_VALUES:,} values, aliases (*name) written out",
                "use fewer aliases",
            )
        if len(stack) + stack[-1][2] > MAX_DEPTH + 2:
            raise BonError(f"{place}: nested deeper than {MAX_DEPTH} levels", "flatten it")


def _check_node(node: yaml.Node, name: str, seen: set[int]) -> None:
    """Refuse tags, characters and numbers that are not plain, and keys written twice."""
    if id(node) in seen:
        return
    seen.add(id(node))
    place = _place(name, node.start_mark)
    if node.tag not in _PLAIN:
        tag = node.tag.replace(_TAG, "!!")
        raise BonError(f"{place}: the tag {tag} is not supported", "write plain values")
    if isinstance(node, yaml.SequenceNode):
        for item in node.value:
            _check_node(item, name, seen)
    elif isinstance(node, yaml.MappingNode):
        lines: dict[str, int] = {}
        for key, value in node.value:
            key_place = _place(name, key.start_mark)
            if not isinstance(key, yaml.ScalarNode):
                raise BonError(
                    f"{key_place}: a list or mapping as a key", "quote it, if it is text"
                )
            if key.value in lines:
                raise BonError(
                    f"{key_place}: the key {key.value!r} is written twice, "
                    f"first in line {lines[key.value]}",
                    "keep one of the two",
                )
            lines[key.value] = key.start_mark.line + 1
            _check_node(key, name, seen)
            _check_node(value, name, seen)
            if key.tag != _TAG + "merge":
                key.tag = _TAG + "str"  # stored experiments are JSON, whose keys are text
    elif "\0" in node.value or _SURROGATE.search(node.value):
        raise BonError(
            f"{place}: a text with a null character or half a surrogate pair", "remove it"
        )
    elif ":" in node.value and node.tag in (_TAG + "int", _TAG + "float"):
        raise BonError(f"{place}: {node.value[:40]} is a number in base 60", "quote it")


def _places(
    node: yaml.Node, name: str, path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], str]]:
    if isinstance(node, yaml.MappingNode):
        entries = [(key.value, key, value) for key, value in node.value]
    elif isinstance(node, yaml.SequenceNode):
        entries = [(str(i), item, item) for i, item in enumerate(node.value)]
    else:
        return
    for step, key, value in entries:
        yield (*path, step), _place(name, key.start_mark)
        yield from _places(value, name, (*path, step))


def _syntax_error(error: yaml.MarkedYAMLError, name: str) -> BonError:
    problem = " ".join((error.problem or "cannot be read").split())
    context = f" ({error.context})" if error.context else ""
    if "character that cannot start any token" in problem:
        fix = "indent with spaces, not tabs, and quote a text that begins with @, ` or %"
    elif "another document" in problem or "single document" in str(error.context):
        problem, context, fix = "a second document begins here", "", "remove the line `---`"
    elif "undefined alias" in problem:
        fix = "quote a text that begins with *"
    else:
        fix = "check brackets, quotes and indentation; quote a text that holds `: ` or ` #`"
    mark = error.problem_mark or error.context_mark
    return BonError(f"{_place(name, mark)}: not valid YAML: {problem}{context}", fix)


def _place(name: str, mark: Any) -> str:
    if mark is None or name.startswith("--"):  # a command-line option has no lines
        return name
    return f"{name}:{mark.line + 1}:{mark.column + 1}"
