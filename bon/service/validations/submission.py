"""Submitted experiments: the schema of the file, confined to what the operator allows.

All checks come before any path is opened, any module imported or any card merged. Templates of the
operator and of bon are not checked. Patterns need no bound: they are RE2's (bon.core.patterns).
"""

import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from jinja2 import TemplateError, nodes
from jinja2.sandbox import ImmutableSandboxedEnvironment

from bon.benchmarks import adapter
from bon.core.errors import BonError
from bon.core.validation import validate
from bon.engines import ENGINES
from bon.experiment.cards import Room, find, shipped
from bon.experiment.config import DatasetSpec, Experiment, Placement
from bon.experiment.yamlfile import load_yaml, read_yaml
from bon.planning.setup import Setup, prepare
from bon.service.settings import Limits, Settings

MAX_DEPTH = 20
MAX_VALUES = 20_000  # and one for every 50 characters of text

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")
_DATASET = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_REVISION = re.compile(r"[A-Za-z0-9][\w.-]{0,99}")
_NAME = re.compile(r"[A-Za-z0-9][\w.+() \[\]:%-]*")
_PROMPT_NAME = re.compile(r"[A-Za-z0-9][\w.-]*")

TEMPLATE_NODES = 400
TEXT_CHARS = 2000
"""Of a pattern, and of a text in engine_args, which the echo engine repeats in every call."""

_LARGEST = {"latency": 10.0, "timeout": 3600.0}
_LARGEST_OTHER = 1e7
_CLUSTER = {"batch": 1024, "in_flight": 64, "retries": 10, "timeout_seconds": 7200.0}
_FILTERS = frozenset(
    (
        "capitalize", "default", "first", "int", "join", "last", "length", "lower", "reverse",
        "string", "title", "trim", "upper",
    )
)  # fmt: skip
_TESTS = frozenset(("defined", "undefined", "none", "odd", "even"))
# Nothing that calls, computes, assigns or repeats: the output is at most as large as the input.
_PARTS = (
    nodes.Template, nodes.Output, nodes.TemplateData, nodes.Name, nodes.Const, nodes.Concat,
    nodes.If, nodes.CondExpr, nodes.Compare, nodes.Operand, nodes.And, nodes.Or, nodes.Not,
    nodes.Slice,
)  # fmt: skip
_LISTS = ("responses", "steps")
"""Loops may go over these alone: one over a text would go through its letters."""


def read_submission(body: bytes) -> dict[str, Any]:
    """Return the mapping in a YAML or JSON body (JSON is YAML)."""
    try:
        data = load_yaml(body.decode("utf-8"), "the experiment")
    except UnicodeDecodeError as error:
        raise BonError(f"the experiment is not UTF-8 (byte {error.start})") from None
    if not isinstance(data, dict):
        raise BonError(f"an experiment is a mapping (key: value), not {type(data).__name__}")
    return data


def check_submission(raw: Mapping[str, Any], settings: Settings) -> Setup:
    """Return the experiment with its cards."""
    _check_values(raw)
    experiment = validate(Experiment, raw, "experiment")
    root = settings.files.resolve()
    for key in ("address", "listen_beyond_loopback"):
        if getattr(experiment.cluster, key):
            raise BonError(f"cluster.{key} is the server's", "leave it out")
    if experiment.allow_remote_code and not settings.allow.remote_code:
        raise BonError("allow_remote_code is off on this server", "ask its operator")
    for spec in (experiment.questions, *experiment.pairs):
        if spec.path is not None:
            confined(spec.path, root, "path")
        for key in ("config", "split"):
            value = getattr(spec, key)
            if value is not None and not _NAME.fullmatch(value):
                raise BonError(f"{key}: {value!r} is not a name")
        _check_hub(spec, settings)
    rooms: tuple[Room, Room] = ("policies", "rewarders")
    for room in rooms:
        for ref in getattr(experiment, room):
            _check_ref(ref, room, root, settings)
    if len(experiment.policies) + len(experiment.rewarders) > settings.limits.models:
        raise BonError(f"more than {settings.limits.models} policies and rewarders")
    setup = prepare(raw, settings.files)
    _check_sizes(setup, settings.limits)
    return setup


def confined(path: str, root: Path, key: str) -> Path:
    """Return the path inside the root; refuse absolute ones, `..` and links that lead out."""
    pure = PurePosixPath(path)
    if pure.is_absolute() or ".." in pure.parts or path.startswith("~") or "\x00" in path:
        raise BonError(
            f"{key}: {path!r} leaves the server's files",
            "give a path relative to the data directory's files/ folder",
        )
    resolved = (root / path).resolve()
    if not resolved.is_relative_to(root):
        raise BonError(f"{key}: {path!r} leads out of the server's files")
    return resolved


def _check_hub(spec: DatasetSpec, settings: Settings) -> None:
    """Allow the benchmark's own dataset and those that the operator lists, as published."""
    known = {adapter(spec.benchmark).hub, *settings.allow.hubs}
    if spec.hub is not None and (not _DATASET.fullmatch(spec.hub) or not {spec.hub, "*"} & known):
        raise BonError(
            f"hub: this server does not read {spec.hub[:100]!r}",
            "its operator can list it in allow.hubs",
        )
    # Anyone can propose a change to a dataset (refs/pr/1); plain names are its owner's.
    if spec.revision is not None and not _REVISION.fullmatch(spec.revision):
        raise BonError(f"revision: {spec.revision[:100]!r} is not a branch, tag or commit")


def _check_values(value: Any) -> None:
    """Refuse nesting that is too deep, too many values (aliases expanded), and odd values."""
    left = MAX_VALUES
    stack: list[tuple[Any, int]] = [(value, 0)]
    while stack:
        item, depth = stack.pop()
        left -= 1 + (len(item) // 50 if isinstance(item, str) else 0)
        if left < 0:
            raise BonError("the experiment holds too many values")
        if depth > MAX_DEPTH:
            raise BonError(f"the experiment is nested deeper than {MAX_DEPTH}")
        if isinstance(item, Mapping):
            for key in item:
                if not isinstance(key, str):
                    raise BonError(f"key {str(key)[:100]!r} is not text")
            stack += [(inner, depth + 1) for pair in item.items() for inner in pair]
        elif isinstance(item, list | tuple):
            stack += [(inner, depth + 1) for inner in item]
        elif isinstance(item, str):
            if "\x00" in item or any("\ud800" <= c <= "\udfff" for c in item):
                raise BonError("a text holds a null character or half of a surrogate pair")
        elif isinstance(item, float) and not math.isfinite(item):
            raise BonError(f"the number {item} is not finite")
        elif isinstance(item, int) and abs(item) > 2**63:
            raise BonError("a number is too large")
        elif not (item is None or isinstance(item, bool | int | float)):
            raise BonError(f"a value of type {type(item).__name__}", "use texts and numbers")


def _check_ref(ref: Any, room: Room, root: Path, settings: Settings) -> None:
    """Check what a submitted card sets itself; its base file is the operator's."""
    own: dict[str, Any] = {"card": ref} if isinstance(ref, str) else dict(ref)
    name = own.pop("card", None)
    base: dict[str, Any] = {}
    if name is not None:
        if not isinstance(name, str):
            raise BonError(f"{room}: card {name!r} is not text")
        if name.endswith((".yaml", ".yml")):
            confined(name, root, room)
        elif name not in shipped(room):
            raise BonError(f"{room}: no shipped card {name!r}", "GET /v1/catalogue lists them")
        base = read_yaml(find(room, name, root))
    merged = {**base, **own}
    label = str(merged.get("name", name))[:100]
    python = merged.get("python") or ""
    if (merged.get("kind") == "python" or python) and python not in settings.allow.python:
        raise BonError(
            f"{label}: runs Python code of its own", "its operator can list it in allow.python"
        )
    if "from" in merged:
        raise BonError(
            f"{label}: `from` names files of this server", "send an experiment that asks"
        )
    _check_model(own.get("model"), root)
    _check_prompt(own.get("prompt"), root)
    _check_card(label, own)
    _check_engine(label, name, own, merged, base, settings)
    place = own.get("placement")
    if isinstance(place, dict) and place.get("runtime_env"):
        raise BonError(f"{label}: placement.runtime_env is the operator's", "leave it out")


def _check_engine(
    label: str,
    name: str | None,
    own: Mapping[str, Any],
    merged: Mapping[str, Any],
    base: Mapping[str, Any],
    settings: Settings,
) -> None:
    engine = merged.get("engine", "transformers")
    entry = ENGINES.get(engine) if isinstance(engine, str) else None
    args = own.get("engine_args") or {}
    if entry is None or not isinstance(args, dict):
        return  # the schema refuses it
    allowed = set(entry.settings.submittable())
    for arg in entry.settings.names(args):
        if arg not in allowed:
            raise BonError(
                f"{label}: engine_args.{arg} is not for experiments to set on this server",
                f"they may set: {', '.join(sorted(allowed)) or 'none'}",
            )
    if engine == "openai":
        _check_endpoint(label, name, own, base, settings)
    elif base.get("engine") not in (None, engine):
        raise BonError(f"{label}: the engine of a card cannot be changed", "write a card inline")


def _check_model(model: Any, root: Path) -> None:
    """Allow a hub id or a folder inside the root, and no other path of this machine."""
    if not isinstance(model, str) or not model:
        return
    if _HUB_ID.fullmatch(model) and not (root / model).exists():
        if Path(model).exists():  # engines look in the working directory first
            raise BonError(f"model: {model!r} is not a hub model that this server knows")
        return
    if not confined(model, root, "model").is_dir():
        raise BonError(f"model: {model!r} is neither OWNER/NAME nor a folder of the server's files")


def _check_prompt(prompt: Any, root: Path) -> None:
    if isinstance(prompt, str) and prompt and not _PROMPT_NAME.fullmatch(prompt):
        raise BonError(f"prompt: {prompt!r} is not the name of a shipped prompt")
    if isinstance(prompt, dict) and "file" in prompt:
        confined(str(prompt["file"]), root, "prompt.file")
    upstream = str(prompt.get("upstream", "x")) if isinstance(prompt, dict) else "x"
    if not _PROMPT_NAME.fullmatch(upstream):
        raise BonError(f"prompt.upstream: {upstream!r} is not the name of a pulled prompt")


def _check_sizes(setup: Setup, limits: Limits) -> None:
    experiment, cluster = setup.experiment, setup.experiment.cluster
    sizes: list[tuple[str, float | None, float]] = [
        *((f"cluster.{name}", getattr(cluster, name), most) for name, most in _CLUSTER.items()),
        ("analysis.bootstrap", experiment.analysis.bootstrap, limits.bootstrap),
        ("questions.limit", experiment.questions.limit, limits.questions),
        *((f"{spec.benchmark}: limit", spec.limit, limits.pairs) for spec in experiment.pairs),
        *((f"{policy.card.name}: n", policy.card.n, limits.n) for policy in setup.policies),
        ("the number of GPUs needed at once", gpus(setup), limits.gpus_per_run),
    ]
    for model in setup.models:
        card = model.card
        sizes += [
            (f"{card.name}: max_tokens", card.sampling.max_tokens, limits.tokens),
            (f"{card.name}: placement.actors", card.placement.actors, limits.actors_per_model),
        ]
    for rewarder in setup.rewarders:
        votes = max([rewarder.card.votes, *setup.pair_votes(rewarder).values()])
        sizes.append((f"{rewarder.card.name}: votes", votes, limits.votes))
    for name, value, most in sizes:
        if value is not None and value > most:
            raise BonError(f"{name} is {value:g}", f"at most {most:g} on this server")


def gpus(setup: Setup) -> float:
    """Return the most GPUs that one of the run's placement groups needs; groups take turns."""
    groups: dict[str, list[Placement]] = {}
    for model in setup.models:
        place = model.card.placement
        groups.setdefault(place.group or f"model:{model.card.name}", []).append(place)
    return max(
        (max(p.gpus for p in places) * max(p.actors for p in places) for places in groups.values()),
        default=0.0,
    )


def _check_endpoint(
    label: str,
    name: str | None,
    own: Mapping[str, Any],
    base: Mapping[str, Any],
    settings: Settings,
) -> None:
    """Check a card whose model is behind an endpoint: `own` overrides the card `name`, `base`."""
    allow = settings.allow
    url = (own.get("engine_args") or {}).get("base_url")
    if base.get("engine") != "openai" or url is not None:
        url = url or (base.get("engine_args") or {}).get("base_url")
        if url not in allow.base_urls:
            raise BonError(
                f"{label}: this server does not call {url!r}",
                "its operator can list it in allow.base_urls",
            )
    elif name is not None and not name.endswith((".yaml", ".yml")) and name not in allow.api_cards:
        raise BonError(
            f"{label}: this server does not pay for the card {name}",
            "its operator can list it in allow.api_cards",
        )
    fixed = ("model", "revision", "cost") if base.get("engine") == "openai" else ("cost",)
    for key in fixed:
        if key in own:
            raise BonError(f"{label}: {key} is the operator's to set", "leave it out")


# ------------------------------------------------------------------ what a card costs to read


def _check_card(label: str, own: Mapping[str, Any]) -> None:
    """Raise BonError if a number, text or template of a submitted card could cost too much."""
    prompt = own.get("prompt")
    if isinstance(prompt, Mapping) and isinstance(prompt.get("text"), str):
        check_template(label, prompt["text"])
    for rule in ("verdict", "score"):
        parser = own.get(rule)
        pattern = parser.get("pattern") if isinstance(parser, Mapping) else None
        if isinstance(pattern, str) and len(pattern) > TEXT_CHARS:  # before it is compiled
            raise BonError(f"{label}: {rule}.pattern has {len(pattern)} characters")
    arguments = own.get("engine_args")
    for name, value in _leaves(arguments if isinstance(arguments, Mapping) else {}):
        if isinstance(value, str) and len(value) > TEXT_CHARS:
            raise BonError(f"{label}: engine_args.{name} has {len(value)} characters")
        most = _LARGEST.get(name, _LARGEST_OTHER)
        if isinstance(value, int | float) and not -most <= value <= most:
            raise BonError(f"{label}: engine_args.{name} is {value:g}", f"at most {most:g} here")
    blur = str(own.get("image_filter", "")).partition("blur:")[2]
    if len(blur) > 5 or (blur.replace(".", "").isdigit() and float(blur) > 100):
        raise BonError(f"{label}: image_filter blurs by {blur[:20]}", "at most 100 here")


def check_template(label: str, text: str) -> None:
    """Raise BonError unless a template only shows values, chooses with `if` and loops once."""
    try:
        tree = ImmutableSandboxedEnvironment().parse(text)
    except (TemplateError, RecursionError) as error:
        raise BonError(f"{label}: prompt.text: {str(error)[:200]}", "see `bon show`") from None
    parts = list(tree.find_all(nodes.Node))
    if len(parts) > TEMPLATE_NODES:
        raise BonError(f"{label}: prompt.text has {len(parts)} parts", f"at most {TEMPLATE_NODES}")
    for node in parts:
        if not _harmless(node):
            raise BonError(
                f"{label}: prompt.text, line {node.lineno}: it may show values, choose with `if` "
                "and loop once, and no more on this server",
                f"filters: {', '.join(sorted(_FILTERS))}",
            )


def _harmless(node: nodes.Node) -> bool:
    """Whether a part of a template neither multiplies its input nor reaches beyond it."""
    match node:
        case nodes.For():
            nested = any(
                isinstance(child, nodes.For) or any(child.find_all(nodes.For))
                for child in node.body
            )
            return _is_list(node.iter) and not nested and not node.recursive
        case nodes.Filter(name="join"):
            return all(isinstance(arg, nodes.Const) for arg in node.args) and not node.kwargs
        case nodes.Filter():
            return node.name in _FILTERS
        case nodes.Test():
            return node.name in _TESTS
        case nodes.Getattr():
            return node.node == nodes.Name("loop", "load") and not node.attr.startswith("_")
        case nodes.Neg():
            return isinstance(node.node, nodes.Const)
        case nodes.Getitem():
            index = node.arg
            number = isinstance(index, nodes.Const) and isinstance(index.value, int)
            return number or isinstance(index, nodes.Slice | nodes.Getattr)
    return isinstance(node, _PARTS)


def _is_list(node: nodes.Node) -> bool:
    if isinstance(node, nodes.Filter) and node.name == "reverse" and node.node is not None:
        node = node.node
    if isinstance(node, nodes.Getitem) and isinstance(node.arg, nodes.Slice):
        node = node.node
    return isinstance(node, nodes.Name) and node.name in _LISTS


def _leaves(values: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        for item in value if isinstance(value, list | tuple) else (value,):
            if isinstance(item, Mapping):
                yield from _leaves(item)
            else:
                yield key, item
