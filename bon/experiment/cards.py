"""Cards: found by name or path, merged with overrides, validated, loaded with their prompts."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property
from importlib import resources
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

from bon.core.errors import BonError, shown, suggestion
from bon.core.files import file_error, read_text
from bon.core.keys import content_key
from bon.core.validation import Origin, validate
from bon.engines import ENGINES, read_settings
from bon.engines.checkpoints import Checkpoint, checkpoint
from bon.engines.fields import EngineSettings
from bon.engines.packed_checkpoints import is_packed, packed_key, unpacked
from bon.engines.settings import VllmSettings
from bon.experiment.config import (
    Card,
    CardRef,
    FilePrompt,
    InlinePrompt,
    PolicyCard,
    PromptRef,
    RewarderCard,
    UpstreamPrompt,
)
from bon.experiment.overrides import merge
from bon.experiment.prompts import PROMPTS, Prompt
from bon.experiment.upstream import published
from bon.experiment.yamlfile import read_document

Role = Literal["policies", "rewarders"]
CardT = TypeVar("CardT", bound=Card)

_PROMPTS = ("prompt", "system")
_RULES = ("verdict", "score")
_SCORE = "{pattern: 'Score: ([0-9.]+)'}"
_NEEDS = {
    "pairwise": ("verdict", "{pattern: 'Answer ([12]) is better'}"),
    "pointwise": ("score", _SCORE),
    "listwise": ("score", "{pattern: 'Best: ([0-9]+)'}"),
    "stepwise": ("score", _SCORE),
    "ensemble": ("members", "[one-rewarder, another]"),
    "python": ("python", "module:Class"),
}
"""Kind -> the key that it requires, and an example."""


@dataclass(frozen=True)
class Loaded(Generic[CardT]):
    """A card with its folder, its prompt and the validated settings of its engine.

    `card_spec` hashes all that shapes its rows but the code of a rewarder class (`code`) and the
    rule that parses stored replies, since another rule parses them again; `with_rule` includes it.
    `stored` is the spec of the rows that are read, if not the current one (bon.work.stored_models).
    """

    card: CardT
    base: Path
    prompt: Prompt
    card_spec: str
    with_rule: str
    settings: EngineSettings
    code: str = ""
    stored: str = ""

    @property
    def spec(self) -> str:
        """The key under which rows are stored."""
        return self.stored or self.own_spec

    @property
    def own_spec(self) -> str:
        """The hash of all that shapes the output."""
        return content_key(self.card_spec, self.code) if self.code else self.card_spec

    @property
    def table(self) -> str:
        """The run's table for its rows."""
        return "candidates" if isinstance(self.card, PolicyCard) else "judgements"

    def __getstate__(self) -> dict[str, Any]:
        """Leave out where the model is: each node finds its own."""
        return {name: value for name, value in vars(self).items() if name != "model_path"}

    @cached_property
    def model_path(self) -> str:
        """The model id, or the absolute path of a folder beside the card, unpacked."""
        local = self.base / self.card.model
        is_folder = self.card.model and local.is_dir()
        return str(unpacked(local.resolve())) if is_folder else self.card.model

    def checkpoint(self, *, download: bool = False) -> Checkpoint | None:
        """Return what the card's checkpoint is; None if an engine of this machine runs none."""
        card = self.card
        if not ENGINES[card.engine].weights_here or card.engine == "none":
            return None
        return checkpoint(self.model_path, card.revision, download=download)


def load_policy(
    ref: CardRef, base: Path, seed: int = 0, origin: Origin | None = None
) -> Loaded[PolicyCard]:
    """Load a policy card with its overrides; `origin` locates them in error messages."""
    return _load(PolicyCard, "policies", ref, base, seed, origin)


def load_rewarder(
    ref: CardRef, base: Path, seed: int = 0, origin: Origin | None = None
) -> Loaded[RewarderCard]:
    """Load a rewarder card with its overrides; `origin` locates them in error messages."""
    return _load(RewarderCard, "rewarders", ref, base, seed, origin)


def _folder(package: str) -> Path:
    return Path(str(resources.files(f"bon.{package}")))


@cache
def shipped(role: Role) -> Mapping[str, Path]:
    """Map names of shipped cards to their files, the miniature's last."""
    folders = [_folder(role) / "cards", _folder("miniature") / "cards" / role]
    return {path.stem: path for folder in folders for path in sorted(folder.glob("*.yaml"))}


def find(role: Role, name: Any, base: Path, origin: Origin | None = None) -> Path:
    """Return the file of a card named by its path, relative to `base`, or as a shipped card."""
    where = f"{origin.place(('card',))}: " if origin is not None else ""
    kind = "policy" if role == "policies" else "rewarder"
    if not isinstance(name, str) or not name.strip():
        raise BonError(
            f"{where}{shown(name)} is not the name of a {kind} card",
            f"name one of `bon list {role}`, or the path of your own",
        )
    if name.endswith((".yaml", ".yml")):
        try:
            path = (base / name).resolve()
            exists = path.exists()
        except OSError as error:
            raise file_error(error) from None
        if not exists:
            raise BonError(f"{where}no {kind} card {path}", "check the path")
        return path
    known = shipped(role)
    if name not in known:
        hint = suggestion(name, known, "a card of your own ends in .yaml", 0.4)
        raise BonError(f"{where}no {kind} card {shown(name)}", f"{hint} (bon list {role})")
    return known[name]


def _load(
    model: type[CardT],
    role: Role,
    ref: CardRef,
    base: Path,
    seed: int,
    origin: Origin | None,
) -> Loaded[CardT]:
    overrides: Mapping[str, Any] = {}
    here = origin or Origin("experiment")
    if isinstance(ref, Mapping) and "card" not in ref:
        path, data = base / "experiment", dict(ref)
    else:
        name = ref["card"] if isinstance(ref, Mapping) else ref
        overrides = {} if isinstance(ref, str) else {k: v for k, v in ref.items() if k != "card"}
        path = find(role, name, base, here)
        document = read_document(path)
        data, here = document.data, document.origin.under(here)
        if overrides.get("engine", data.get("engine")) != data.get("engine"):
            data.pop("engine_args", None)  # of another engine
        prompts = {key: overrides[key] for key in _PROMPTS if key in overrides}
        data = {**merge(data, overrides), **prompts}  # prompts are replaced, not merged
    card = validate(model, data, here)
    needed, example = _NEEDS.get(getattr(card, "kind", ""), ("", ""))
    if needed and card.engine != "none" and not getattr(card, needed):
        raise BonError(
            f"{here.place(('kind',))}: card {card.name!r}: its kind needs `{needed}:`",
            f"add `{needed}: {example}`",
        )
    prompt, system = (
        _prompt(card, key, base if key in overrides else path.parent, here) for key in _PROMPTS
    )
    if system.id:
        prompt = replace(prompt, system=system)
    where = f"{here.place(('engine_args',))}: card {card.name!r}"
    if getattr(card, "kind", "") == "ensemble":  # runs no engine
        settings = read_settings("none", {})
    else:
        settings = read_settings(card.engine, _engine_arguments(card), where)
        if card.engine == "openai" and card.revision:
            fix = "start the server with it, and set revision: null"
            raise BonError(f"{where}: an endpoint takes no revision", fix)
    return Loaded(card, path.parent, prompt, *specs_of(card, path.parent, prompt, seed), settings)


def _prompt(card: Card, key: str, base: Path, origin: Origin) -> Prompt:
    """Load and check the prompt under a key of the card."""
    ref = getattr(card, key, "")
    if not ref:
        return Prompt("", "")
    try:
        prompt = load_prompt(ref, base)
        kind = card.kind if isinstance(card, RewarderCard) else "policy"
        prompt.check("system" if key == "system" else kind)
    except BonError as error:
        place = origin.place((key,))
        raise BonError(f"{place}: card {card.name!r}: {error.message}", error.fix) from None
    return prompt


def load_prompt(ref: PromptRef, base: Path) -> Prompt:
    """Load a prompt: by its name, published, inline, or a file relative to `base`."""
    if isinstance(ref, InlinePrompt):
        return Prompt("inline", ref.text)
    if isinstance(ref, FilePrompt):
        path = base / ref.file
        return Prompt(f"file:{path.name}", read_text(path, encoding="utf-8"))
    if isinstance(ref, UpstreamPrompt):
        return published(ref.upstream)
    if ref not in PROMPTS:
        fix = f"{suggestion(ref, PROMPTS)} (one of your own: `prompt: {{file: PATH}}`)"
        raise BonError(f"no prompt {ref!r}", fix)
    return Prompt(ref, read_text(PROMPTS[ref], encoding="utf-8"))


def need_limit(card: Card, max_cost: float | None) -> None:
    """Raise BonError for a card that costs money where no limit is set."""
    if card.price and max_cost is None and card.engine_args.get("spending_cap") is None:
        raise BonError(f"{card.name} has a price", "set a limit for all calls: --max-cost DOLLARS")


def _engine_arguments(card: Card) -> dict[str, Any]:
    """Return the card's engine_args with its model and revision."""
    found = {"model": card.model, "revision": card.revision}
    known = ENGINES[card.engine].settings.model_fields
    return {k: v for k, v in found.items() if k in known and v is not None} | card.engine_args


def settings_of(loaded: Loaded[Any], *, remote_code: bool) -> EngineSettings:
    """Return the engine's settings here; BonError for remote code that is not allowed."""
    card, settings = loaded.card, loaded.settings
    if _is_on(card.engine_args, "trust_remote_code") and not remote_code:
        fix = "read that code, then allow it with --allow-remote-code"
        raise BonError(f"card {card.name!r}: it runs code that comes with the model", fix)
    here: dict[str, Any] = {"model": loaded.model_path}
    if card.revision:  # or the commit that it stands for
        here["revision"] = card.revision
    known = type(settings).model_fields.keys() - card.engine_args.keys()
    update = {name: value for name, value in here.items() if name in known}
    if 0 < card.placement.gpus < 1 and isinstance(settings, VllmSettings):
        flag = "gpu_memory_utilization"
        if flag not in (card.engine_args.get("engine_args") or {}):
            share = {flag: round(card.gpu_memory_share, 3)}
            update["engine_args"] = settings.engine_args.model_copy(update=share)
    return settings.model_copy(update=update)


def _is_on(arguments: Mapping[str, Any], name: str) -> bool:
    """Whether a setting is on, at any depth of the arguments."""
    return any(
        _is_on(value, name) if isinstance(value, Mapping) else key == name and bool(value)
        for key, value in arguments.items()
    )


def specs_of(card: Card, base: Path, prompt: Prompt, seed: int) -> tuple[str, str]:
    """Compute `card_spec` and `with_rule` of a card whose relative paths start from `base`."""
    shaping = card.model_dump(
        mode="json",
        include={
            "model", "revision", "engine", "images", "sampling", "kind", "verdict", "score",
            "image_filter", "aggregate", "window", "step_separator", "python",
        },
    )  # fmt: skip
    if isinstance(card, RewarderCard):
        shaping["options"] = card.options.model_dump(mode="json", exclude_defaults=True)
    # Greedy decoding does not depend on the experiment's seed.
    drawn = seed if shaping["sampling"]["temperature"] > 0 else None
    rest = prompt.sha256, _fingerprint(base, card.model), drawn
    arguments = ENGINES[card.engine].settings.shaping(card.engine_args)
    reparses = isinstance(card, RewarderCard) and card.stored_rule is not None
    with_rule = content_key(shaping, arguments, *rest)
    without_rule = {**shaping, **dict.fromkeys(_RULES)}
    return content_key(without_rule, arguments, *rest) if reparses else with_rule, with_rule


def _fingerprint(base: Path, model: str) -> str:
    """Hash a local checkpoint: each file's name, size, and first and last 64 KiB."""
    folder = base / model
    if not model or not folder.is_dir():
        return ""
    if is_packed(folder):
        return packed_key(folder)
    digest = hashlib.sha256()
    for path in sorted(p for p in folder.iterdir() if p.is_file() and p.suffix != ".md"):
        size = path.stat().st_size
        digest.update(f"{path.name}:{size}".encode())
        with path.open("rb") as file:
            digest.update(file.read(1 << 16))
            file.seek(max(0, size - (1 << 16)))
            digest.update(file.read())
    return digest.hexdigest()
