"""What comes with bon: `bon list`, `bon show` and the service's catalogue."""

import difflib
import io
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from bon import benchmarks
from bon.choosing.rules import RULES, Rule
from bon.core.errors import BonError
from bon.core.records import Question
from bon.experiment.cards import Loaded, Room, load_policy, load_rewarder, shipped
from bon.experiment.config import Card, PolicyCard, RewarderCard
from bon.experiment.prompts import absent
from bon.experiment.refusals import validate
from bon.experiment.yamlfile import load_yaml, read_yaml
from bon.formats import formats
from bon.formats.base import Format
from bon.policies.question import question_block, render_prompt
from bon.running.setup import shipped_experiments

Row = dict[str, Any]
ROOMS: tuple[Room, ...] = ("policies", "rewarders")

SAMPLE = Question(
    key="sample",
    id="sample",
    dataset="sample",
    text="How many apples lie on the table in <image 1>?",
    options=("Two", "Three", "Four"),
    answer="B",
)
_IMAGES = {
    "first": "images come first",
    "last": "images come last",
    "interleaved": "images stand where it says <image>",
}
_ANSWERS = ("I count three apples.\n\nAnswer: B", "There are four apples.\n\nAnswer: C")


def listing(what: str) -> list[Row]:
    """Rows for `bon list`: policies, rewarders, benchmarks, rules, formats, experiments."""
    makers = {
        "policies": lambda: [_card_row(card) for card in cards("policies")],
        "rewarders": lambda: [_card_row(card) for card in cards("rewarders")],
        "benchmarks": lambda: [_benchmark_row(name) for name in benchmarks.benchmarks()],
        "rules": lambda: [_rule_row(rule) for rule in RULES.values()],
        "formats": lambda: [_format_row(form) for form in formats()],
        "experiments": lambda: [_experiment_row(path) for path in shipped_experiments().values()],
    }
    if what not in makers:
        close = difflib.get_close_matches(what, makers, n=1, cutoff=0.4)
        hint = f"did you mean {close[0]!r}?" if close else f"one of {', '.join(makers)}"
        raise BonError(f"there is no list of {what!r}", hint)
    return makers[what]()


def catalogue() -> dict[str, list[Row]]:
    """Everything that an experiment can name, as the service tells it."""
    return {
        **{room: cards(room) for room in ROOMS},
        "benchmarks": listing("benchmarks"),
        "rules": listing("rules"),
    }


@lru_cache(maxsize=len(ROOMS))
def cards(room: Room) -> list[Row]:
    """The shipped cards of a room; `yaml` is the file, `card` what an experiment writes."""
    model: type[Card] = PolicyCard if room == "policies" else RewarderCard
    rows = []
    for name, path in shipped(room).items():
        text = path.read_text(encoding="utf-8")
        card = validate(model, load_yaml(text), path.name)
        shown = card.model_dump(
            mode="json",
            include={
                "name", "title", "model", "revision", "licence", "family", "size", "engine",
                "kind", "tested", "notes", "n", "votes", "cost",
            },
        )  # fmt: skip
        rows.append({"card": name, **shown, "yaml": text})
    return rows


def show_listing(rows: Sequence[Mapping[str, Any]]) -> str:
    """The rows as a table; whole words on a terminal, whole lines in a pipe."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    keys = list(rows[0]) if rows else []
    for key in keys:
        table.add_column(key, overflow="fold", no_wrap=key == "name")
    for row in rows:
        table.add_row(*(escape(str(row[key])) or "-" for key in keys))
    out = Console()
    if not out.is_terminal:
        out = Console(file=io.StringIO(), width=250)
    with out.capture() as captured:
        out.print(table)
    return "\n".join(line.rstrip() for line in captured.get().splitlines())


def show_card(name: str, base: Path | None = None) -> str:
    """One card in full, what it stands for, and its prompt for a sample question."""
    loaded = find_card(name, base or Path())
    data = loaded.card.model_dump(mode="json", exclude_defaults=True, exclude={"role"})
    if loaded.card.size:
        data["size"] = int(loaded.card.size)
    text = yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=96)
    head = f"# {_room_of(loaded.card)} {name}"
    return f"{head}\n{text}\n{_rendered(loaded)}".rstrip()


def find_card(name: str, base: Path) -> Loaded[Any]:
    """A card by name or path, in whichever room it is."""
    if name.endswith((".yaml", ".yml")):
        raw = read_yaml(base / name)
        if "questions" in raw and "policies" in raw:
            raise BonError(f"{name} is an experiment, not a card", f"bon plan {name}")
        load = load_rewarder if "kind" in raw or raw.get("role") == "rewarder" else load_policy
        return load(name, base)
    known = {room: shipped(room) for room in ROOMS}
    if name in known["policies"]:
        return load_policy(name, base)
    if name in known["rewarders"]:
        return load_rewarder(name, base)
    names = [each for room in ROOMS for each in known[room]]
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.4)
    hint = f"did you mean {close[0]!r}?" if close else "bon list policies, bon list rewarders"
    raise BonError(f"no card {name!r}", hint)


def _rendered(loaded: Loaded[Any]) -> str:
    if loaded.prompt.unpulled:
        return f"--- {absent(loaded.prompt.unpulled)}"
    if isinstance(loaded.card, PolicyCard):
        return _headed("prompt for a sample question", render_prompt(SAMPLE, loaded.prompt))
    card: RewarderCard = loaded.card
    if card.kind == "ensemble":
        return f"Its judgements follow from those of {', '.join(card.members)}: it asks nothing."
    if not loaded.prompt.text:
        conversation = f"user: {question_block(SAMPLE)}\nassistant: {_ANSWERS[0]}"
        return _headed("what it reads for a sample question and answer", conversation)
    text = loaded.prompt.render(**sample_values(card))
    title = f"prompt {loaded.prompt.id!r} for a sample question ({_IMAGES[card.images]})"
    system = loaded.prompt.system
    opening = "" if system is None else _headed(f"system turn {system.id!r}", system.text) + "\n"
    return opening + _headed(title, text)


def sample_values(card: RewarderCard) -> Row:
    """What the template of a rewarder is filled with, for the sample question."""
    first, second = _ANSWERS
    steps = first.split(card.step_separator)
    if card.options.get("turns"):  # further steps are turns of their own, without the template
        steps = steps[:1]
    return {
        "prompt": question_block(SAMPLE),
        "first": first,
        "second": second,
        "response": first,
        "responses": [first, second],
        "steps": steps,
        "step": steps[-1],
        "number": len(steps),
        "instruction": card.options.get("instruction", ""),
        "query": question_block(SAMPLE),
        "document": first,
    }


def _headed(title: str, text: str) -> str:
    return f"--- {title}\n{text}\n---"


def _room_of(card: Card) -> str:
    return "policy" if isinstance(card, PolicyCard) else "rewarder"


def _card_row(card: Row) -> Row:
    kind = {"kind": card["kind"]} if "kind" in card else {}
    return {
        "name": card["name"],
        **kind,
        "engine": card["engine"],
        "size": _size(card["size"]),
        "licence": card["licence"],
        "model": card["model"],
    }


def _size(parameters: float | None) -> str:
    if parameters is None:
        return ""
    scale, letter = (1e9, "B") if parameters >= 1e9 else (1e6, "M")
    return f"{parameters / scale:.3g}{letter}"


def _benchmark_row(name: str) -> Row:
    found = benchmarks.adapter(name)
    return {
        "name": name,
        "holds": found.kind,
        "title": found.title,
        "hub": found.hub,
        "licence": found.licence,
    }


def _format_row(form: Format) -> Row:
    return {"name": form.name, "title": form.title, "needs": form.needs}


def _rule_row(rule: Rule) -> Row:
    return {"name": rule.name, "reads": rule.reads, "chooses": rule.chooses}


def _experiment_row(path: Path) -> Row:
    raw = read_yaml(path)
    return {
        "name": path.stem,
        "policies": len(raw["policies"]),
        "rewarders": len(raw["rewarders"]),
        "description": " ".join(str(raw.get("description", "")).split()),
    }
