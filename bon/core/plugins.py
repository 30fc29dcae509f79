"""Parts that users add: registered in this process, or by entry points of installed packages."""

from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from typing import Generic, TypeVar

from bon.core.errors import BonError, one_line

PartT = TypeVar("PartT")


class Registry(Generic[PartT]):
    """Added parts of one kind by name; `group` is their entry-point group, e.g. `bon.rewarders`."""

    def __init__(self, group: str) -> None:
        self.group = group
        self._loaded: dict[str, PartT] = {}

    @cached_property
    def _installed(self) -> dict[str, EntryPoint]:
        return {point.name: point for point in entry_points(group=self.group)}

    def names(self) -> list[str]:
        """List every name without importing anything."""
        return list(dict.fromkeys([*self._loaded, *self._installed]))

    def add(self, name: str, part: PartT) -> None:
        """Register a part; a later one of the same name replaces it, as in a notebook."""
        self._loaded[name] = part

    def get(self, name: str) -> PartT | None:
        """Return the part of that name, imported if a package has it, or None."""
        if name not in self._loaded:
            point = self._installed.get(name)
            if point is None:
                return None
            try:
                self._loaded[name] = point.load()
            except Exception as error:
                raise BonError(
                    f"{self.group} {name!r} of {point.value} cannot be imported: {one_line(error)}",
                    "fix or uninstall the package that adds it",
                ) from None
        return self._loaded[name]
