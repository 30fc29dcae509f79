"""Engines by name. Each one's module, and whatever it needs, is imported only when it is built."""

import importlib
from collections.abc import Callable, Mapping
from typing import Any

from bon.core.errors import BonError
from bon.engines.base import Engine
from bon.engines.fields import EngineSettings
from bon.engines.settings import ADDED, read_settings

ENGINES: dict[str, str] = {
    "echo": "bon.engines.echo:EchoEngine",
    "transformers": "bon.engines.transformers:TransformersEngine",
    "vllm": "bon.engines.vllm:VllmEngine",
    "openai": "bon.engines.openai:OpenAIEngine",
    "none": "bon.engines.none:NoEngine",
}


def build(name: str, args: Mapping[str, Any]) -> Engine:
    """Load the engine `name` with its settings; whatever the user got wrong is a BonError."""
    settings = read_settings(name, args)
    return engine_class(name)(settings)


def engine_class(name: str) -> Callable[[EngineSettings], Engine]:
    """The class behind a name, which loads a model when it is called with its settings."""
    added = None if name in ENGINES else ADDED.get(name)
    if added is not None:
        return added
    module, _, attribute = ENGINES[name].partition(":")
    try:
        cls: Callable[[EngineSettings], Engine] = getattr(
            importlib.import_module(module), attribute
        )
    except ImportError as error:
        missing = (error.name or "").partition(".")[0]
        if missing == "bon":
            raise
        what = (
            f"needs the package {missing!r}"
            if isinstance(error, ModuleNotFoundError) and missing
            else f"cannot use the installed {missing or 'packages'} ({error})"
        )
        raise BonError(f"engine {name!r} {what}", f"pip install -U 'bon[{name}]'") from error
    return cls
