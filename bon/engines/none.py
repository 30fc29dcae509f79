"""No engine: for rewarders of kind `python` that bring a model of their own."""

from typing import Any, ClassVar

from bon.engines.base import Engine


class NoEngine(Engine):
    """Loads nothing; tells the rewarder which model its card names, by `info()`."""

    name: ClassVar[str] = "none"

    def __init__(
        self, model: str = "", revision: str | None = None, trust_remote_code: bool = False
    ) -> None:
        self._settings = {
            "model": model,
            "revision": revision,
            "trust_remote_code": trust_remote_code,
        }

    def info(self) -> dict[str, Any]:
        """What the card says; what is really loaded, its rewarder knows."""
        return {"engine": self.name, **self._settings}
