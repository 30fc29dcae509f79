"""The benchmarks in the making that people label here: which there are, and their desks."""

import re
import threading
from pathlib import Path

from bon.core.errors import BonError
from bon.curating.desk import Desk
from bon.curating.workbench import open_workbench
from bon.service.logs import name_folder
from bon.service.settings import Settings

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class Desks:
    """One desk per folder, kept while the server runs: leases are the server's."""

    def __init__(self, settings: Settings) -> None:
        """Folders that are named must be there; those of the data directory may come later.

        Raises:
            BonError: a named folder is no benchmark, or two have one name.
        """
        self._own = settings.benchmarks
        self._named: dict[str, Path] = {}
        for folder in settings.annotate:
            path = open_workbench(folder).directory.resolve()
            if not _NAME.fullmatch(path.name):
                raise BonError(
                    f"annotate: {folder}: its name cannot be part of an address",
                    "call the folder by letters, digits and . _ -",
                )
            if self._named.setdefault(path.name, path) != path:
                raise BonError(f"annotate: two folders are called {path.name}", "rename one")
            name_folder(path, path.name)
        self._desks: dict[str, Desk] = {}
        self._lock = threading.Lock()

    def names(self) -> list[str]:
        """Every benchmark that can be labelled here."""
        own = {path.parent.name for path in self._own.glob("*/recipe.yaml")}
        return sorted({*self._named, *filter(_NAME.fullmatch, own)})

    def find(self, name: str) -> Desk | None:
        """The desk of a benchmark; None where there is no such one."""
        if name not in self.names():
            return None
        with self._lock:
            if name not in self._desks:
                self._desks[name] = Desk(self._named.get(name, self._own / name))
            return self._desks[name]
