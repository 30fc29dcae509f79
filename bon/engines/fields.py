"""Declaring engine settings: type, bounds, description, and whether a setting shapes the output.

Card validation, content keys, the service's allow-list and the tables of docs/engines.md are all
derived from these models.
"""

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from types import NoneType
from typing import Any, ClassVar, Literal, Self, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.fields import FieldInfo

from bon.core.errors import BonError, shown, suggestion


def setting(
    default: Any, description: str, *, shapes: bool, submit: bool = False, **bounds: Any
) -> Any:
    """Declare a field of `EngineSettings`; a default of `...` makes it required.

    shapes: another value may change the output, so it is part of content keys; False for what
        affects only speed, money or access.
    submit: experiments submitted to the service may set it.
    """
    roles = {"shapes": shapes, "submit": submit}
    return Field(default, description=description, json_schema_extra={**roles}, **bounds)


class EngineSettings(BaseModel):
    """Settings of an engine, or of a part of one; values must have the exact type."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, protected_namespaces=())

    near: ClassVar[float] = 0.5
    """Similarity above which a known name is suggested for an unknown one."""

    @classmethod
    def read(cls, values: Mapping[str, Any], where: str) -> Self:
        """Validate `values`; BonError names the wrong setting of `where` and what it takes."""
        try:
            settings = cls.model_validate(dict(values))
        except ValidationError as error:
            # A misspelt name before the required one it hides; of a union, the deepest branch.
            worst = max(
                error.errors(), key=lambda e: (e["type"] == "extra_forbidden", len(e["loc"]))
            )
            raise cls._refusal(worst["type"], worst["loc"], worst["input"], where) from None
        settings.refuse_misspelt(where)
        return settings

    @classmethod
    def shaping(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """Select the values that shape the output, unchanged; unknown names count as shaping."""
        selected = {}
        for name, value in values.items():
            field = cls.model_fields.get(name)
            if field is not None and not role(field, "shapes"):
                continue
            inner = settings_inside(field.annotation) if field is not None else None
            if inner is not None and isinstance(value, Mapping):
                value = inner.shaping(value)
                if not value:
                    continue
            selected[name] = value
        return selected

    @classmethod
    def submittable(cls, prefix: str = "") -> Iterator[str]:
        """Yield the dotted names of settings that a submitted experiment may hold."""
        for name, field in cls.model_fields.items():
            if role(field, "submit"):
                inner = settings_inside(field.annotation)
                yield from inner.submittable(f"{prefix}{name}.") if inner else [prefix + name]

    @classmethod
    def names(cls, values: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
        """Yield the dotted names of `values`, as `submittable` writes them."""
        for name, value in values.items():
            field = cls.model_fields.get(name)
            inner = settings_inside(field.annotation) if field is not None else None
            if inner is not None and isinstance(value, Mapping):
                yield from inner.names(value, f"{prefix}{name}.")
            else:
                yield f"{prefix}{name}"

    def refuse_misspelt(self, where: str) -> None:
        """Refuse extra settings whose names are close to a known one, at every depth."""
        fields = type(self).model_fields
        for name in self.model_extra or {}:
            if close := get_close_matches(name, fields, n=1, cutoff=self.near):
                raise BonError(f"{where} has no setting {name!r}", f"did you mean {close[0]!r}?")
        for name in fields:
            if isinstance(value := getattr(self, name), EngineSettings):
                value.refuse_misspelt(where)

    @classmethod
    def _refusal(
        cls, kind: str, location: tuple[int | str, ...], value: Any, where: str
    ) -> BonError:
        """Describe the fault that pydantic reports at `location`."""
        model: type[EngineSettings] = cls
        field: FieldInfo | None = None
        path: list[str] = []
        for part in map(str, location):
            if part in model.model_fields:
                field = model.model_fields[part]
                path.append(part)
                model = settings_inside(field.annotation) or model
        if kind == "extra_forbidden":
            unknown = str(location[-1])
            known = "known: " + ", ".join(model.model_fields)
            fix = suggestion(unknown, model.model_fields, known, model.near)
            return BonError(f"{where} has no setting {'.'.join([*path, unknown])!r}", fix)
        assert field is not None, location
        name = ".".join(path)
        if kind == "missing":
            return BonError(f"{where} needs the setting {name!r}", f"add {name}: {takes(field)}")
        return BonError(
            f"{where}: {name} is {shown(value)}", f"{takes(field)}: {field.description}"
        )


def role(field: FieldInfo, name: Literal["shapes", "submit"]) -> bool:
    """Return a flag that `setting` stored on a field."""
    extra = field.json_schema_extra
    assert isinstance(extra, dict)
    return bool(extra[name])


def settings_inside(annotation: Any) -> type[EngineSettings] | None:
    """Return the settings model within an annotation, if there is one."""
    if isinstance(annotation, type) and issubclass(annotation, EngineSettings):
        return annotation
    return next(filter(None, map(settings_inside, get_args(annotation))), None)


def takes(field: FieldInfo) -> str:
    """Describe the values of a setting: `a whole number from 1 to 64 or null`."""
    optional = NoneType in get_args(field.annotation)
    types = get_args(field.annotation) if optional else (field.annotation,)
    bounds = _bounds(field.metadata)
    return " or ".join(_noun(kind) + (bounds if kind in (int, float) else "") for kind in types)


_NOUNS: dict[Any, str] = {
    NoneType: "null",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
    list: "a list",
}


def _noun(kind: Any) -> str:
    origin = get_origin(kind) or kind
    if origin is Literal:
        *most, last = map(str, get_args(kind))
        return f"{', '.join(most)} or {last}"
    if origin in _NOUNS:
        return _NOUNS[origin]
    inner = settings_inside(kind)
    if inner is not None and inner.model_config.get("extra") == "forbid":
        return "a mapping of " + ", ".join(inner.model_fields)
    return "a mapping"


def _bounds(metadata: list[Any]) -> str:
    words = {"ge": "of at least", "gt": "above", "le": "of at most"}
    limits = {
        name: f"{limit:g}"
        for bound in metadata
        for name in words
        if (limit := getattr(bound, name, None)) is not None
    }
    if limits.keys() == {"ge", "le"}:
        return f" from {limits['ge']} to {limits['le']}"
    return "".join(
        f"{' and' if index else ''} {words[name]} {limits[name]}"
        for index, name in enumerate(name for name in words if name in limits)
    )
