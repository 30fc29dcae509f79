"""Declaring engine settings: type, bounds, description, and whether a setting shapes the output.

Card validation, content keys, the service's allow-list and the tables of docs/engines.md are all
derived from these models.
"""

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any, ClassVar, Literal, Self, get_args

from pydantic import BaseModel, ConfigDict, Field
from pydantic.fields import FieldInfo

from bon.core.errors import BonError
from bon.core.validation import validate


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
        """Validate `values`; BonError names the wrong settings of `where` and what they take."""
        settings = validate(cls, values, where)
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

    def refuse_misspelt(self, where: str, *steps: str) -> None:
        """Refuse extra settings whose names are close to a known one, at every depth."""
        fields = type(self).model_fields
        for name in self.model_extra or {}:
            if close := get_close_matches(name, fields, n=1, cutoff=self.near):
                unknown = ".".join((*steps, name))
                raise BonError(f"{where}: unknown key {unknown!r}", f"did you mean {close[0]!r}?")
        for name in fields:
            if isinstance(value := getattr(self, name), EngineSettings):
                value.refuse_misspelt(where, *steps, name)


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
