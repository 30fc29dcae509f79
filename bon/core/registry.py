"""The one shape of every registry: shipped parts, a user's, and those of installed packages."""

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from pkgutil import resolve_name
from typing import Any, Generic, TypeVar

from bon.core.errors import BonError, one_line, suggestion

PartT = TypeVar("PartT")


class Registry(Mapping[str, PartT], Generic[PartT]):
    """The parts of one kind by name, shipped ones first; each is imported when it is used.

    kind: what a part is, in messages. group: the entry-point group of packages that add some.
    fits: whether an object is such a part.
    shipped: the parts of bon, or where they are: `module:attribute`, perhaps a mapping by name.
    families: parts made on demand, by the prefix of their names: `module:function` of the name.
    """

    def __init__(
        self,
        kind: str,
        group: str,
        fits: Callable[[Any], bool],
        shipped: Mapping[str, PartT | str],
        families: Mapping[str, str] | None = None,
    ) -> None:
        self.kind = kind
        self.group = group
        self.shipped = dict(shipped)
        self.fits = fits
        self._families = families or {}
        self._added: dict[str, PartT] = {}

    @cached_property
    def _installed(self) -> dict[str, EntryPoint]:
        points = {point.name: point for point in entry_points(group=self.group)}
        for name in points.keys() & self.shipped.keys():
            raise BonError(
                f"{self.group} {name!r} of {points[name].value}: there is one in bon",
                "rename it there, or uninstall the package that adds it",
            )
        return points

    @property
    def added(self) -> list[str]:
        """The names of parts that are not bon's own."""
        return [*{**self._added, **self._installed}]

    def __iter__(self) -> Iterator[str]:
        return iter([*self.shipped, *self.added])

    def __len__(self) -> int:
        return len(self.shipped) + len(self.added)

    def __contains__(self, name: object) -> bool:
        return name in [*self] or bool(self._family(str(name)))

    def _family(self, name: str) -> str:
        """Return the function that makes a part of this name, or nothing."""
        made = (make for prefix, make in self._families.items() if name.startswith(prefix))
        return next(made, "")

    def add(self, name: str, part: PartT) -> None:
        """Add a part; a later one of the same name replaces it, as a cell of a notebook does.

        Raises:
            BonError: bon has a part of that name, or it is not such a part.
        """
        if name in self.shipped:
            raise BonError(f"there is a {self.kind} {name!r} already", "give it another name")
        self._added[name] = self._checked(name, part, "")

    def __getitem__(self, name: str) -> PartT:
        """Return the part of that name.

        Raises:
            BonError: no such part, with the nearest name; or it cannot be imported.
        """
        if name in self.shipped:
            part = self.shipped[name]
            if isinstance(part, str):
                found = resolve_name(part)
                part = self.shipped[name] = found[name] if isinstance(found, Mapping) else found
            return part
        if name not in self._added:
            if make := self._family(name):
                made: PartT = resolve_name(make)(name)
                return made
            if (point := self._installed.get(name)) is None:
                raise BonError(f"no {self.kind} {name!r}", suggestion(name, [*self], cutoff=0.4))
            try:
                part = point.load()
            except Exception as error:
                raise BonError(
                    f"{self.group} {name!r} of {point.value} cannot be imported: {one_line(error)}",
                    "fix or uninstall the package that adds it",
                ) from None
            self._added[name] = self._checked(name, part, f" of {point.value}")
        return self._added[name]

    def _checked(self, name: str, part: Any, source: str) -> PartT:
        if not self.fits(part):
            raise BonError(f"{self.group} {name!r}{source} is no {self.kind}", "see docs/python.md")
        checked: PartT = part
        return checked
