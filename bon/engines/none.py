"""No engine: for rewarders of kind `python` that load a model of their own."""

from typing import Any, ClassVar

from bon.engines.base import Engine
from bon.engines.settings import NoSettings


class NoEngine(Engine):
    """Loads nothing; `info()` passes the card's model to the rewarder."""

    name: ClassVar[str] = "none"

    def __init__(self, settings: NoSettings) -> None:
        self._settings = settings

    def info(self) -> dict[str, Any]:
        """Return the card's model; its rewarder decides what it loads."""
        return {"engine": self.name, **self._settings.model_dump()}
