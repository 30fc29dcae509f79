"""Validation of user input; pydantic's errors become one line each, with place and fix.

What a model expects, and an example, come from its JSON schema.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_args
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)
from pydantic_core import ErrorDetails

from bon.core.errors import BonError, shown, suggestion
from bon.core.text import CONTROL

MAX_MISTAKES = 5
T = TypeVar("T")
ModelT = TypeVar("ModelT", bound=BaseModel)
Schema = dict[str, Any]
Steps = tuple[str | int, ...]
"""The keys and indices that lead to a value."""


@dataclass(frozen=True)
class Origin:
    """Where the values of a document were written; `places` maps paths to FILE:LINE:COLUMN."""

    name: str
    places: dict[tuple[str, ...], str] = field(default_factory=dict)

    def place(self, steps: Steps) -> str:
        """Return the place of a value, or of the nearest one around it."""
        return self.places.get(self._nearest(steps), self.name)

    def inside(self, *steps: str | int) -> "Origin":
        """Return the origin of the value at `steps`."""
        prefix = self._nearest(steps)
        size = len(prefix)
        inner = {p[size:]: place for p, place in self.places.items() if p[:size] == prefix}
        return Origin(self.name, inner)

    def _nearest(self, steps: Steps) -> tuple[str, ...]:
        path: tuple[str, ...] = ()
        for step in map(str, steps):
            if (*path, step) in self.places:
                path = (*path, step)
            elif step != "0":  # a list of one may be written without brackets
                break
        return path

    def under(self, over: "Origin") -> "Origin":
        """Return this origin overlaid by another."""
        return Origin(self.name, self.places | {p: x for p, x in over.places.items() if p})

    def with_option(self, option: str, steps: Steps) -> "Origin":
        """Return the origin after a command-line option has set one value."""
        path = tuple(map(str, steps))
        rest = {p: place for p, place in self.places.items() if p[: len(path)] != path}
        set_here = {path[: i + 1]: option for i in range(len(path))}
        return Origin(self.name, {**set_here, **rest})


class Strict(BaseModel):
    """Base model that refuses unknown keys, infinite numbers, and `true` where a number goes."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, protected_namespaces=(), allow_inf_nan=False
    )

    @model_validator(mode="before")
    @classmethod
    def _numbers(cls, data: Any) -> Any:
        """Replace `true` in place of a number by what no number is: it would count as 1."""
        if not isinstance(data, Mapping):
            return data
        changed = dict(data)
        for name, info in cls.model_fields.items():
            key, kinds = info.alias or name, _leaves(info.annotation)
            if key in data and kinds & {int, float} and not kinds & {bool, Any}:
                changed[key] = _without_booleans(data[key])
        return changed


def _without_booleans(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [*map(_without_booleans, value)]
    return object() if isinstance(value, bool) else value


def _leaves(annotation: Any) -> set[Any]:
    return set().union(*map(_leaves, get_args(annotation))) or {annotation}


def is_address(url: str) -> bool:
    """Whether a text is an address of HTTP: its scheme, a host, and a port that can exist."""
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def dotted(steps: Sequence[str | int]) -> str:
    """Write a path as after --set."""
    return ".".join(map(str, steps))


def validate(model: type[ModelT], data: Mapping[str, Any], where: str | Origin) -> ModelT:
    """Return `data` as `model`, or raise a BonError with a line for each of up to 5 mistakes."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        origin = Origin(where) if isinstance(where, str) else where
        schema = model.model_json_schema()
        errors: dict[Steps, BonError] = {}
        for detail in error.errors(include_url=False):
            field = _Field(schema, data, detail["loc"])
            # Branches of a union fail one by one; the first error names all of them.
            errors.setdefault(field.steps, _translate(field, detail, origin))
        raise together(list(errors.values())) from None


def together(errors: list[BonError]) -> BonError:
    """Combine several errors, a line each."""
    lines = list(dict.fromkeys(line for error in errors for line in str(error).split("\n")))
    if len(lines) == 1:
        return errors[0]
    if (more := len(lines) - MAX_MISTAKES) > 0:
        lines[MAX_MISTAKES:] = [f"and {more} more mistakes -> fix these first"]
    return BonError("\n".join(lines))


def all_of(makers: Iterable[Callable[[], T]]) -> list[T]:
    """Call every maker; the errors of all are raised together."""
    results, errors = [], []
    for make in makers:
        try:
            results.append(make())
        except BonError as error:
            errors.append(error)
    if errors:
        raise together(errors)
    return results


class _Field:
    """The field at an error's location: its path, schema, value and enclosing model."""

    def __init__(self, schema: Schema, data: Any, loc: tuple[int | str, ...]) -> None:
        self.steps: Steps = ()
        self.value: Any = data
        self.definitions: dict[str, Schema] = schema.get("$defs", {})
        self.schema = self.model = schema
        for part in loc:
            if not self._descend(part):
                break

    def resolve(self, schema: Schema) -> Schema:
        """Follow a reference, and leave out the null branch of an optional field."""
        branches = [b for b in schema.get("anyOf", ()) if b.get("type") != "null"]
        if len(branches) == 1:
            schema = {**schema, **branches[0]}
            del schema["anyOf"]
        elif branches:
            schema = {**schema, "anyOf": branches}
        if name := schema.get("$ref", "").rpartition("/")[2]:
            return {"name": name, **self.definitions[name]}
        return schema

    def _descend(self, part: int | str) -> bool:
        """Step into a key or item; False where the rest of a location names a union's branch."""
        schema = self.resolve(self.schema)
        if "properties" in schema:
            self.model = schema
            self._step(part, schema["properties"].get(str(part)))
            return str(part) in schema["properties"]
        if "anyOf" in schema:
            models = [s for s in map(self.resolve, schema["anyOf"]) if "properties" in s]
            inside = len(models) == 1 and isinstance(self.value, Mapping)
            if inside and part == models[0]["name"]:
                self.schema = models[0]
            return inside
        if schema.get("type") == "array" and isinstance(part, int):
            if part == 0 and isinstance(self.value, Mapping):  # one, without brackets
                self.schema = schema.get("items", {})
                return True
            items = schema.get("prefixItems", ())
            self._step(part, items[part] if part < len(items) else schema.get("items"))
            return True
        if schema.get("type") == "object" and part != "[key]":
            values = schema.get("additionalProperties")
            self._step(part, values if isinstance(values, dict) else None)
            return True
        return False

    def _step(self, part: int | str, schema: Schema | None) -> None:
        self.steps = (*self.steps, part)
        self.schema = schema or {}
        if isinstance(self.value, Mapping):
            self.value = self.value.get(part)
        elif isinstance(self.value, list | tuple) and isinstance(part, int):
            self.value = self.value[part] if part < len(self.value) else None

    def describe(self, schema: Schema) -> tuple[str, str]:
        """Describe the values that a schema allows, and write one of them as YAML."""
        expected, example = self._describe(self.resolve(schema))
        default = schema.get("default")
        if isinstance(default, dict) or default in ("", []):
            default = None
        value = schema.get("examples", [default])[0]
        return expected, example if value is None else _yaml(value)

    def _describe(self, schema: Schema) -> tuple[str, str]:
        kind = schema.get("type")
        if "anyOf" in schema:
            words, examples = zip(*map(self.describe, schema["anyOf"]), strict=True)
            return " or ".join(dict.fromkeys(words)), examples[0]
        if "enum" in schema or "const" in schema:
            values = schema.get("enum", [schema.get("const")])
            return "one of " + ", ".join(map(str, values)), _yaml(values[0])
        if kind in ("integer", "number"):
            word = "a whole number" if kind == "integer" else "a number"
            return word + _bounds(schema), _yaml(_number(schema))
        if kind == "string":
            described = "pattern" in schema and schema.get("description")
            return described or "text" + _length(schema, "Length"), "text"
        if kind == "boolean":
            return "true or false", "true"
        if "properties" in schema:
            fields = schema["properties"]
            required = schema.get("required", list(fields)[:1])
            example = ", ".join(f"{key}: {self.describe(fields[key])[1]}" for key in required)
            if schema.get("additionalProperties") is True:
                return "a mapping (key: value)", f"{{{example}}}"
            return f"a mapping with keys of {', '.join(fields)}", f"{{{example}}}"
        if kind == "array":
            items = schema.get("prefixItems") or [schema["items"]]
            words, examples = zip(*map(self.describe, items), strict=True)
            if "prefixItems" in schema:
                expected = f"a list of {len(items)}: {', '.join(words)}"
            else:
                expected = f"a list, each entry {words[0]}{_length(schema, 'Items')}"
            return expected, f"[{', '.join(examples)}]"
        if kind == "object":
            values = schema.get("additionalProperties")
            example = self.describe(values)[1] if isinstance(values, dict) else "text"
            return "a mapping (key: value)", f"{{key: {example}}}"
        return "a value", "text"


def _translate(field: _Field, detail: ErrorDetails, origin: Origin) -> BonError:
    name, where = dotted(field.steps), f"{origin.place(field.steps)}: "
    kind = detail["type"]
    if kind == "extra_forbidden":
        known = sorted(field.model["properties"])
        hint = suggestion(str(field.steps[-1]), known, f"known keys: {', '.join(known)}")
        return BonError(f"{where}unknown key {name!r}", hint)
    if kind == "invalid_key":
        return BonError(f"{where}the key {name} is not text", f"write {name!r} in quotes")
    key = f"{field.steps[-1]}: " if field.steps and isinstance(field.steps[-1], str) else ""
    expected, value = field.describe(field.schema)
    example = f"`{key}{value}`"
    if kind == "missing":
        return BonError(f"{where}key {name!r} is missing", f"add {example}, for example")
    if kind == "value_error":
        reason, *fix = detail["ctx"]["error"].args
        subject = f"{name}: " if name else ""
        return BonError(f"{where}{subject}{reason}", fix[0] if fix else f"for example {example}")
    if kind == "string_unicode":
        return BonError(f"{where}{name}: {shown(field.value)} is not Unicode", "write it anew")
    if kind == "finite_number":
        expected = expected.replace("a number", "a finite number")
    return BonError(
        f"{where}{name}: found {shown(field.value)}, expected {expected}", f"for example {example}"
    )


def _yaml(value: Any) -> str:
    plain = isinstance(value, str) and value.replace("-", "").replace("_", "").isalnum()
    return value if plain and not value[0].isdigit() else json.dumps(value, ensure_ascii=False)


def _number(schema: Schema) -> int | float:
    """Return a number within the bounds."""
    above: float | None = schema.get("exclusiveMinimum")
    below: float | None = schema.get("exclusiveMaximum")
    minimum: float = schema.get("minimum", 0)
    if above is not None and below is not None:
        return (above + below) / 2
    return max(1, minimum, above + 1 if above is not None else 0)


def _bounds(schema: Schema) -> str:
    if "minimum" in schema and "maximum" in schema:
        return f" from {schema['minimum']:,} to {schema['maximum']:,}"
    words = {
        "minimum": "of at least",
        "exclusiveMinimum": "above",
        "maximum": "of at most",
        "exclusiveMaximum": "below",
    }
    bounds = [f"{word} {schema[key]:,}" for key, word in words.items() if key in schema]
    return f" {' and '.join(bounds)}" if bounds else ""


def _length(schema: Schema, unit: str) -> str:
    words = {f"min{unit}": "at least", f"max{unit}": "at most"}
    bounds = [f"{word} {schema[key]}" for key, word in words.items() if key in schema]
    return f" ({' and '.join(bounds)} long)" if bounds else ""


# ------------------------------------------------------------------ types with bounds

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
