"""YAML in: plain values, the place where each was written, and limits on what a text may cost.

Aliases are counted as if they were written out, so that nine lines cannot stand for a billion
values; a key that occurs twice is refused, where YAML would silently take the last.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from bon.core.errors import BonError
from bon.core.files import refusal_of

MAX_BYTES = 1_000_000
MAX_DEPTH = 32
MAX_VALUES = 20_000
Steps = tuple[str | int, ...]
"""The keys and positions that lead to a value."""

_TAG = "tag:yaml.org,2002:"
_PLAIN = {_TAG + name for name in ("str", "int", "float", "bool", "null", "map", "seq", "merge")}
_SURROGATE = re.compile("[\ud800-\udfff]")


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Safe YAML of plain values: Yes and No are words of verdicts, a date is text."""


_Loader.yaml_implicit_resolvers = {
    letter: [(tag, pattern) for tag, pattern in entries if tag in _PLAIN - {_TAG + "bool"}]
    for letter, entries in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(
    _TAG + "bool", re.compile(r"^(true|True|TRUE|false|False|FALSE)$"), list("tTfF")
)


@dataclass(frozen=True)
class _Layer:
    """Values that lie at `at` in a document; `name` is their file, or the option that set them."""

    name: str
    node: yaml.Node | None
    at: Steps = ()

    def inside(self, step: str | int) -> "_Layer | None":
        """What this layer says below one step."""
        if self.at:
            same = str(self.at[0]) == str(step)
            return replace(self, at=self.at[1:]) if same else None
        found = _entry(self.node, step)
        return None if found is None else replace(self, node=found[1])

    def find(self, steps: Steps) -> tuple[int, str]:
        """How many of the steps this layer has written, and the place of the last of them."""
        known = len(self.at)
        if tuple(map(str, steps[:known])) != tuple(map(str, self.at)):
            return -1, ""
        node = self.node
        place = self.name if node is None else _place(self.name, node.start_mark)
        for step in steps[known:]:
            found = _entry(node, step)
            if found is None:
                break
            key, node = found
            known += 1
            place = _place(self.name, key.start_mark)
        return known, place


@dataclass(frozen=True)
class Origin:
    """Where the values of a document were written: its file, and what was laid over it."""

    name: str
    layers: tuple[_Layer, ...] = ()

    def place(self, steps: Steps) -> str:
        """`FILE:LINE:COLUMN` of the key, or of the nearest one around it that there is."""
        best = (-1, self.name)
        for layer in self.layers:
            found = layer.find(steps)
            if found[0] > best[0] or found[0] == best[0] > 0:  # what lies above counts
                best = found
        return best[1]

    def inside(self, *steps: str | int) -> "Origin":
        """The origin of the value that the steps lead to."""
        layers: list[_Layer] = list(self.layers)
        for step in steps:
            layers = [found for layer in layers if (found := layer.inside(step)) is not None]
        return Origin(self.name, tuple(layers))

    def under(self, over: "Origin") -> "Origin":
        """This origin with the values of another laid over it."""
        return Origin(self.name, self.layers + over.layers)

    def with_option(self, option: str, steps: Steps) -> "Origin":
        """The origin after an option of the command line has set one value."""
        return Origin(self.name, (*self.layers, _Layer(option, None, steps)))


@dataclass(frozen=True)
class Document:
    """A mapping and where it was written."""

    data: dict[str, Any]
    origin: Origin = field(default_factory=lambda: Origin("experiment"))


def load_yaml(text: str, name: str = "YAML") -> Any:
    """The value of a YAML text, or a BonError that names the line."""
    return _load(text, name)[0]


def read_yaml(path: Path) -> dict[str, Any]:
    """The mapping in a YAML file, or a BonError that names the line."""
    return read_document(path).data


def read_document(path: Path) -> Document:
    """The mapping in a YAML file with the place of every key, or a BonError."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise BonError(f"no file {path}", "check the path") from None
    except IsADirectoryError:
        inside = path / "experiment.yaml"
        fix = f"did you mean {inside}?" if inside.is_file() else "name a YAML file in it"
        raise BonError(f"{path} is a folder, not a YAML file", fix) from None
    except OSError as error:
        raise refusal_of(error) from None
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if len(content) <= MAX_BYTES:
            raise BonError(
                f"{path} is not UTF-8 text (byte {error.start})", "save it as UTF-8"
            ) from None
        text = content.decode("utf-8", "ignore")
    data, node = _load(text, str(path))
    if not isinstance(data, dict):
        found = "nothing" if data is None else "a list" if isinstance(data, list) else "one value"
        raise BonError(
            f"{path} holds {found}, not a mapping",
            "write one `key: value` per line without indentation",
        )
    return Document(data, Origin(str(path), (_Layer(str(path), node),)))


def _load(text: str, name: str) -> tuple[Any, yaml.Node | None]:
    if len(text) > MAX_BYTES:
        raise BonError(
            f"{name} has more than {MAX_BYTES:,} bytes",
            "an experiment written by hand is far smaller",
        )
    try:
        _check_nesting(text, name)
        loader = _Loader(text)
        node = loader.get_single_node()
        if node is None:
            return None, None
        _Measure(name).of(node)
        return loader.construct_document(node), node
    except yaml.MarkedYAMLError as error:
        raise _refused(error, name) from None
    except yaml.YAMLError as error:
        raise BonError(
            f"{name}: not YAML: {' '.join(str(error).split())[:200]}", "save it as plain text"
        ) from None
    except ValueError:  # Python's own limit, met while a number is read
        raise BonError(f"{name}: a number with thousands of digits", "quote it") from None


def _refused(error: yaml.MarkedYAMLError, name: str) -> BonError:
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


def _check_nesting(text: str, name: str) -> None:
    """Before anything recursive, or anything that keeps what it reads, sees the text."""
    depth = values = 0
    for event in yaml.parse(text, _Loader):
        values += isinstance(event, yaml.NodeEvent)
        if values > MAX_VALUES:
            raise _too_many(_place(name, event.start_mark))
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                raise _too_deep(name, event.start_mark)
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


class _Measure:
    """The values that a node stands for, aliases written out, and how deep they are nested."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._known: dict[int, tuple[int, int] | None] = {}

    def of(self, node: yaml.Node) -> tuple[int, int]:
        """(values, depth) of a node; what is aliased was measured where it was written."""
        place = _place(self._name, node.start_mark)
        if id(node) in self._known:
            known = self._known[id(node)]
            if known is None:
                raise BonError(
                    f"{place}: an alias to something that contains it", "write the value out"
                )
            return known
        self._known[id(node)] = None
        if node.tag not in _PLAIN:
            tag = node.tag.replace(_TAG, "!!")
            raise BonError(f"{place}: the tag {tag} is not read here", "write plain values")
        if isinstance(node, yaml.ScalarNode):
            if "\0" in node.value or _SURROGATE.search(node.value):
                raise BonError(
                    f"{place}: a text with a null character or half a surrogate pair", "remove it"
                )
            if ":" in node.value and node.tag in (_TAG + "int", _TAG + "float"):
                raise BonError(f"{place}: {node.value[:40]} is a number in base 60", "quote it")
            found = (1, 0)
        else:
            found = self._collection(node, place)
        self._known[id(node)] = found
        return found

    def _collection(self, node: yaml.Node, place: str) -> tuple[int, int]:
        inner = node.value
        if isinstance(node, yaml.MappingNode):
            _check_keys(node, self._name)
            inner = [part for pair in node.value for part in pair]
        values, depth = 1, 0
        for part in inner:
            more, deep = self.of(part)
            values, depth = values + more, max(depth, deep)
        if values > MAX_VALUES:
            raise _too_many(place)
        if depth >= MAX_DEPTH:
            raise _too_deep(self._name, node.start_mark)
        return values, depth + 1


def _check_keys(node: yaml.MappingNode, name: str) -> None:
    seen: dict[str, Any] = {}
    for key, _ in node.value:
        if not isinstance(key, yaml.ScalarNode):
            place = _place(name, key.start_mark)
            raise BonError(f"{place}: a list or mapping as a key", "quote it, if it is text")
        if key.value in seen:
            raise BonError(
                f"{_place(name, key.start_mark)}: the key {key.value!r} is written twice, "
                f"first in line {seen[key.value].line + 1}",
                "keep one of the two",
            )
        seen[key.value] = key.start_mark
        if key.tag != _TAG + "merge":
            key.tag = _TAG + "str"  # a run keeps its experiment as JSON, where every key is text


def _entry(node: yaml.Node | None, step: str | int) -> tuple[yaml.Node, yaml.Node] | None:
    """The key and the value that a step leads to; a list of one may be written without brackets."""
    if isinstance(node, yaml.MappingNode):
        for key, value in reversed(node.value):
            if key.value == str(step):
                return key, value
        return (node, node) if step == 0 else None
    if isinstance(node, yaml.SequenceNode) and str(step).isdigit():
        at = int(step)
        return (node.value[at], node.value[at]) if at < len(node.value) else None
    return None


def _place(name: str, mark: Any) -> str:
    alone = mark is None or name.startswith("--")  # an option of the command line has no lines
    return name if alone else f"{name}:{mark.line + 1}:{mark.column + 1}"


def _too_many(place: str) -> BonError:
    return BonError(
        f"{place}: more than {MAX_VALUES:,} values, aliases (*name) written out",
        "use fewer aliases",
    )


def _too_deep(name: str, mark: Any) -> BonError:
    return BonError(f"{_place(name, mark)}: nested deeper than {MAX_DEPTH} levels", "flatten it")


def dotted(steps: Sequence[str | int]) -> str:
    """A path as it is written after --set."""
    return ".".join(str(step) for step in steps)
