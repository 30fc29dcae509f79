"""What a submitted card may cost to read and use: its numbers and its templates.

A template of the operator's, or one that comes with bon, is not looked at. Patterns need no
bound: they are RE2's (bon.core.patterns). A validation has its own process and `limits.hours`.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from jinja2 import TemplateError, nodes
from jinja2.sandbox import ImmutableSandboxedEnvironment

from bon.core.errors import BonError
from bon.experiment.config import ClusterConfig
from bon.running.setup import Setup
from bon.service.settings import Limits

TEMPLATE_NODES = 400
TEXT_CHARS = 2000
"""Of a pattern, and of a text in engine_args: the echo engine repeats one for every call."""

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
# Nothing that calls, computes, keeps or repeats: what is shown is at most what there is to show.
_PARTS = (
    nodes.Template, nodes.Output, nodes.TemplateData, nodes.Name, nodes.Const, nodes.Concat,
    nodes.If, nodes.CondExpr, nodes.Compare, nodes.Operand, nodes.And, nodes.Or, nodes.Not,
    nodes.Slice,
)  # fmt: skip
_LISTS = ("responses", "steps")
"""What may be looped over: a loop over a text would go through its letters."""


def check_card(label: str, own: Mapping[str, Any]) -> None:
    """What a submitted card says itself.

    Raises:
        BonError: a number, a text or a template could cost more than it may.
    """
    prompt = own.get("prompt")
    if isinstance(prompt, Mapping) and isinstance(prompt.get("text"), str):
        check_template(label, prompt["text"])
    for rule in ("verdict", "score"):
        found = own.get(rule)
        pattern = found.get("pattern") if isinstance(found, Mapping) else None
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


def check_setup(setup: Setup, limits: Limits) -> None:
    """What the experiment asks for, its cards as they are after merging.

    Raises:
        BonError: more than this server's limits.
    """
    cluster: ClusterConfig = setup.experiment.cluster
    for name, most in _CLUSTER.items():
        value = getattr(cluster, name)
        if value is not None and value > most:
            raise BonError(f"cluster.{name} is {value:g}", f"at most {most:g} here")
    draws = setup.experiment.analysis.bootstrap
    if draws > limits.bootstrap:
        raise BonError(f"analysis.bootstrap is {draws}", f"at most {limits.bootstrap} here")
    for loaded in setup.models:
        tokens = loaded.card.sampling.max_tokens
        if tokens > limits.tokens:
            raise BonError(
                f"{loaded.card.name}: max_tokens {tokens} is above {limits.tokens}",
                "ask for shorter answers",
            )


def check_template(label: str, text: str) -> None:
    """Refuse what could make a prompt far larger than what it shows.

    Raises:
        BonError: it does more than show values, choose and loop once, or is long.
    """
    try:
        tree = ImmutableSandboxedEnvironment().parse(text)
    except (TemplateError, RecursionError) as error:
        raise BonError(f"{label}: prompt.text: {str(error)[:200]}", "see `bon show`") from None
    every = list(tree.find_all(nodes.Node))
    if len(every) > TEMPLATE_NODES:
        raise BonError(f"{label}: prompt.text has {len(every)} parts", f"at most {TEMPLATE_NODES}")
    for node in every:
        if not _harmless(node):
            raise BonError(
                f"{label}: prompt.text, line {node.lineno}: it may show values, choose with `if` "
                "and loop once, and no more on this server",
                f"filters: {', '.join(sorted(_FILTERS))}",
            )


def _harmless(node: nodes.Node) -> bool:
    """Whether a part of a template makes no more of what it is given, and reaches for no more."""
    match node:
        case nodes.For():
            nested = any(True for child in node.body for _ in child.find_all(nodes.For))
            nested = nested or any(isinstance(child, nodes.For) for child in node.body)
            return _is_list(node.iter) and not nested and not node.recursive
        case nodes.Filter(name="join"):
            return all(isinstance(one, nodes.Const) for one in node.args) and not node.kwargs
        case nodes.Filter():
            return node.name in _FILTERS
        case nodes.Test():
            return node.name in _TESTS
        case nodes.Getattr():
            return node.node == nodes.Name("loop", "load") and not node.attr.startswith("_")
        case nodes.Neg():
            return isinstance(node.node, nodes.Const)
        case nodes.Getitem():
            place = node.arg
            number = isinstance(place, nodes.Const) and isinstance(place.value, int)
            return number or isinstance(place, nodes.Slice | nodes.Getattr)
    return isinstance(node, _PARTS)


def _is_list(node: nodes.Node) -> bool:
    if isinstance(node, nodes.Filter) and node.name == "reverse" and node.node is not None:
        node = node.node
    if isinstance(node, nodes.Getitem) and isinstance(node.arg, nodes.Slice):
        node = node.node
    return isinstance(node, nodes.Name) and node.name in _LISTS


def _leaves(values: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        for one in value if isinstance(value, list | tuple) else (value,):
            if isinstance(one, Mapping):
                yield from _leaves(one)
            else:
                yield key, one
