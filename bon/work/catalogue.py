"""Shipped cards, benchmarks, rules, formats and experiments: `bon list` and `bon show`."""

import re
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from bon.analysis.results.phrasing import size
from bon.benchmarks import BENCHMARKS
from bon.choosing.rules import RULES
from bon.core.errors import BonError, suggestion
from bon.core.records import Question
from bon.core.validation import validate
from bon.experiment.cards import Loaded, Role, load_policy, load_rewarder, shipped
from bon.experiment.config import Card, PolicyCard, RewarderCard
from bon.experiment.prompts import absent
from bon.experiment.yamlfile import load_yaml, read_yaml
from bon.formats import FORMATS
from bon.policies.prompting import question_block, render_prompt
from bon.work.preflight import cannot_load
from bon.work.setup import shipped_experiments

Row = dict[str, Any]
ROLES: tuple[Role, ...] = ("policies", "rewarders")

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
    """Return the rows of `bon list`."""
    lists: dict[str, Callable[[], list[Row]]] = {
        "policies": lambda: [_card_row(card) for card in cards("policies")],
        "rewarders": lambda: [_card_row(card) for card in cards("rewarders")],
        "benchmarks": lambda: [
            {"name": name, "holds": benchmark.kind, "title": benchmark.title}
            | {"hub": benchmark.hub, "licence": benchmark.licence}
            for name, benchmark in BENCHMARKS.items()
        ],
        "rules": lambda: [
            {"name": rule.name, "reads": rule.reads, "chooses": rule.chooses}
            for rule in RULES.values()
        ],
        "formats": lambda: [
            {"name": form.name, "title": form.title, "needs": form.needs}
            for form in FORMATS.values()
        ],
        "experiments": lambda: [_experiment_row(path) for path in shipped_experiments().values()],
    }
    if what not in lists:
        hint = suggestion(what, lists, f"one of {', '.join(lists)}", 0.4)
        raise BonError(f"no list of {what!r}", hint)
    return lists[what]()


def catalogue() -> dict[str, list[Row]]:
    """Return the cards, benchmarks and rules that an experiment can name."""
    return {
        **{role: cards(role) for role in ROLES},
        "benchmarks": listing("benchmarks"),
        "rules": listing("rules"),
    }


@lru_cache(maxsize=len(ROLES))
def cards(role: Role) -> list[Row]:
    """Return the shipped cards of a role; `yaml` is the file, `card` its name in experiments."""
    model: type[Card] = PolicyCard if role == "policies" else RewarderCard
    rows = []
    for name, path in shipped(role).items():
        text = path.read_text(encoding="utf-8")
        card = validate(model, load_yaml(text), path.name)
        shown = card.model_dump(
            mode="json",
            include={
                "name", "title", "model", "revision", "licence", "family", "size", "engine",
                "kind", "tested", "notes", "n", "votes", "cost",
            },
        )  # fmt: skip
        rows.append({"card": name, **shown, "cannot_load": cannot_load(card), "yaml": text})
    return rows


def show_card(name: str, base: Path | None = None) -> str:
    """Return a card with its prompt, an experiment as it is, or a benchmark with its columns."""
    if name in (experiments := shipped_experiments()):
        return experiments[name].read_text(encoding="utf-8")
    if name in BENCHMARKS:
        adapter = BENCHMARKS[name]
        about: Row = {"title": adapter.title, "hub": adapter.hub, "licence": adapter.licence}
        about |= {"grader": adapter.grader} if adapter.grader else {}
        forms = [{"required": dict(f.need), "optional": dict(f.may)} for f in adapter.forms]
        text = yaml.safe_dump(about | {"columns": forms}, sort_keys=False, width=96)
        return (
            f"# benchmark of {adapter.kind}; columns: ROLE: COLUMN, one entry for each form\n{text}"
        )
    loaded = find_card(name, base or Path())
    data = loaded.card.model_dump(mode="json", exclude_defaults=True, exclude={"role"})
    if loaded.card.size:
        data["size"] = int(loaded.card.size)
    text = yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=96)
    role = "policy" if isinstance(loaded.card, PolicyCard) else "rewarder"
    return f"# {role} {name}\n{text}\n{_rendered(loaded)}".rstrip()


def find_card(name: str, base: Path) -> Loaded[Any]:
    """Load a policy or rewarder card by name or path."""
    if name.endswith((".yaml", ".yml")):
        raw = read_yaml(base / name)
        if "questions" in raw and "policies" in raw:
            raise BonError(f"{name} is an experiment, not a card", f"bon plan {name}")
        load = load_rewarder if "kind" in raw or raw.get("role") == "rewarder" else load_policy
        return load(name, base)
    if name in shipped("policies"):
        return load_policy(name, base)
    if name in shipped("rewarders"):
        return load_rewarder(name, base)
    names = [*shipped("policies"), *shipped("rewarders")]
    hint = suggestion(name, names, "bon list policies, rewarders or experiments", 0.4)
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
    """Return the template variables of a rewarder for the sample question."""
    first, second = _ANSWERS
    steps = first.split(card.step_separator)
    if getattr(
        card.options, "turns", False
    ):  # further steps are turns of their own, without the template
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
        "instruction": getattr(card.options, "instruction", ""),
        "query": question_block(SAMPLE),
        "document": first,
    }


def _headed(title: str, text: str) -> str:
    return f"--- {title}\n{text}\n---"


def _card_row(card: Row) -> Row:
    names = ("name", "kind", "engine", "size", "licence", "model")
    row = {name: card[name] for name in names if name in card}
    run = "no" if re.search(r"not run|tests run", card["tested"]) else "yes"
    return row | {
        "size": "" if card["size"] is None else size(card["size"]),
        "run": f"cannot: {card['cannot_load']}" if card["cannot_load"] else run,
    }


def _experiment_row(path: Path) -> Row:
    raw = read_yaml(path)
    return {
        "name": path.stem,
        "policies": len(raw["policies"]),
        "rewarders": len(raw["rewarders"]),
        "description": " ".join(str(raw.get("description", "")).split()),
    }
