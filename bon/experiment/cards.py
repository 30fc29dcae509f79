"""Finding cards: by name among the shipped ones, or by path; overrides merged, then validated."""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

from bon.core.errors import BonError, shown
from bon.core.files import refusal_of
from bon.core.keys import content_key
from bon.engines.settings import read_settings, settings_of
from bon.experiment.config import Card, CardRef, PolicyCard, RewarderCard
from bon.experiment.overrides import merge
from bon.experiment.prompt_refs import load_prompt
from bon.experiment.prompts import NAMES, Prompt
from bon.experiment.refusals import validate
from bon.experiment.specs import Specs, specs_of
from bon.experiment.yamlfile import Origin, read_document

Room = Literal["policies", "rewarders"]
ROOT = Path(__file__).parents[1]
CardT = TypeVar("CardT", bound=Card)

_PROMPTS = ("prompt", "system")
_SCORE = "{pattern: 'Score: ([0-9.]+)'}"
_NEEDS = {
    "pairwise": ("verdict", "{pattern: 'Answer ([12]) is better'}"),
    "pointwise": ("score", _SCORE),
    "listwise": ("score", "{pattern: 'Best: ([0-9]+)'}"),
    "stepwise": ("score", _SCORE),
    "ensemble": ("members", "[one-rewarder, another]"),
    "python": ("python", "module:Class"),
}
"""Kind -> the key without which it cannot judge, and an example of it."""


@dataclass(frozen=True)
class Loaded(Generic[CardT]):
    """A card ready to use: its folder, its prompt, and the hashes of all that shapes its output.

    `code` is the hash of a python rewarder's own code. `filed` is the spec under which a run holds
    the rows of this card, where that is not today's (bon.running.filed).
    """

    card: CardT
    base: Path
    prompt: Prompt
    specs: Specs
    code: str = ""
    filed: str = ""

    @property
    def spec(self) -> str:
        """What rows are filed under."""
        return self.filed or self.own_spec

    @property
    def own_spec(self) -> str:
        """The hash of all that shapes the output today."""
        return content_key(self.specs.card, self.code) if self.code else self.specs.card

    @property
    def table(self) -> str:
        """The table of a run that its rows go to."""
        return "candidates" if isinstance(self.card, PolicyCard) else "judgements"

    @property
    def model_path(self) -> str:
        """The model id, or an absolute path where the card names a folder beside itself."""
        local = self.base / self.card.model
        return str(local.resolve()) if self.card.model and local.is_dir() else self.card.model


def load_policy(
    ref: CardRef, base: Path, seed: int = 0, origin: Origin | None = None
) -> Loaded[PolicyCard]:
    """The policy card that an experiment names, with its overrides, which `origin` locates."""
    return _load(PolicyCard, "policies", ref, base, seed, origin)


def load_rewarder(
    ref: CardRef, base: Path, seed: int = 0, origin: Origin | None = None
) -> Loaded[RewarderCard]:
    """The rewarder card that an experiment names, with its overrides, which `origin` locates."""
    return _load(RewarderCard, "rewarders", ref, base, seed, origin)


@cache
def shipped(room: Room) -> Mapping[str, Path]:
    """Name -> file of the cards that come with the package, miniature ones last."""
    folders = [ROOT / room / "cards", ROOT / "miniature" / "cards" / room]
    return {path.stem: path for folder in folders for path in sorted(folder.glob("*.yaml"))}


def find(room: Room, name: Any, base: Path, origin: Origin | None = None) -> Path:
    """The file of a card: a path (relative to `base`) or the name of a shipped one."""
    where = f"{origin.place(('card',))}: " if origin is not None else ""
    kind = "policy" if room == "policies" else "rewarder"
    if not isinstance(name, str) or not name.strip():
        raise BonError(
            f"{where}{shown(name)} is not the name of a {kind} card",
            f"name one of `bon list {room}`, or the path of your own",
        )
    if name.endswith((".yaml", ".yml")):
        try:
            path = (base / name).resolve()
            there = path.exists()
        except OSError as error:
            raise refusal_of(error) from None
        if not there:
            raise BonError(f"{where}no {kind} card {path}", "check the path")
        return path
    known = shipped(room)
    if name not in known:
        close = difflib.get_close_matches(name, known, n=1, cutoff=0.4)
        hint = f"did you mean {close[0]!r}?" if close else "a card of your own ends in .yaml"
        raise BonError(f"{where}no {kind} card {shown(name)}", f"{hint} (bon list {room})")
    return known[name]


def _load(
    model: type[CardT],
    room: Room,
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
        path = find(room, name, base, here)
        document = read_document(path)
        data, here = document.data, document.origin.under(here)
        if overrides.get("engine", data.get("engine")) != data.get("engine"):
            data.pop("engine_args", None)  # they are another engine's
        named = {key: overrides[key] for key in _PROMPTS if key in overrides}
        data = {**merge(data, overrides), **named}  # another prompt, not keys of the card's
    card = validate(model, data, here)
    if isinstance(card, RewarderCard):
        _check_kind(card, here)
    prompt, system = (
        _prompt(card, key, room, base if key in overrides else path.parent, here)
        for key in _PROMPTS
    )
    if system.id:
        prompt = replace(prompt, system=system)
    specs = specs_of(card, path.parent, prompt, seed)
    loaded = Loaded(card, path.parent, prompt, specs)
    if getattr(card, "kind", "") != "ensemble":  # which runs no engine
        arguments = given_settings(card, loaded.model_path)
        place = here.place(("engine_args",))
        read_settings(card.engine, arguments, f"{place}: card {card.name!r}")
    return loaded


def _prompt(card: Card, key: str, room: Room, base: Path, origin: Origin) -> Prompt:
    """The prompt under a key of the card, known to be one that can be filled in."""
    ref = getattr(card, key, "")
    if not ref:
        return Prompt("", "")
    try:
        prompt = load_prompt(ref, room=room, base=base)
        asked = card.kind if isinstance(card, RewarderCard) else "policy"
        prompt.check(() if key == "system" else NAMES.get(asked))
    except BonError as error:
        place = origin.place((key,))
        raise BonError(f"{place}: card {card.name!r}: {error.message}", error.fix) from None
    return prompt


def _check_kind(card: RewarderCard, origin: Origin) -> None:
    needed, example = _NEEDS.get(card.kind, ("", ""))
    if needed and card.engine != "none" and not getattr(card, needed):
        raise BonError(
            f"{origin.place(('kind',))}: card {card.name!r}: kind {card.kind} needs `{needed}:`",
            f"add `{needed}: {example}`",
        )


def given_settings(card: Card, model_path: str) -> dict[str, Any]:
    """What the engine is built with: the card's settings of it, its model, revision and price."""
    arguments = dict(card.engine_args)
    if card.engine == "echo":
        return arguments
    known = settings_of(card.engine).model_fields
    if "model" in known:
        arguments.setdefault("model", model_path)
    if card.revision:
        arguments.setdefault("revision", card.revision)
    if "price" in known and not isinstance(card.cost, str):
        arguments.setdefault("price", card.cost.model_dump())
    return arguments
