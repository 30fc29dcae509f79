"""Overrides of a document: `--set key.sub=value`, and keys beside `card:`."""

import copy
from collections.abc import Mapping
from typing import Any

from bon.core.errors import BonError
from bon.experiment.yamlfile import Document, load_yaml

CARDS = ("policies", "rewarders")
"""Keys of an experiment that list cards."""


def override(document: Document, assignments: list[str]) -> Document:
    """Return a copy of a document with each dotted `key=value` set; values are YAML."""
    data: Any = copy.deepcopy(document.data)
    origin = document.origin
    for assignment in assignments:
        key, separator, text = assignment.partition("=")
        if not separator:
            raise BonError(f"--set {assignment!r} has no '='", "write --set key.sub=value")
        steps = key.split(".")
        if not all(steps):
            raise BonError(f"--set {key}: an empty key", "write --set key.sub=value")
        option = f"--set {key}"
        _assign(data, steps, load_yaml(text, f"--set {assignment[:80]}"), option)
        origin = origin.with_option(option, tuple(steps))
    return Document(data, origin)


def apply_overrides(data: dict[str, Any], assignments: list[str]) -> dict[str, Any]:
    """Return a copy of plain data with each dotted `key=value` set."""
    return override(Document(data), assignments).data


def merge(base: dict[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return `base` updated by `over`, with mappings merged at every depth."""
    out = dict(base)
    for key, value in over.items():
        old = out.get(key)
        out[key] = merge(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return out


def _assign(node: Any, steps: list[str], value: Any, option: str) -> None:
    tasks = node.get("questions") if isinstance(node, dict) and steps[0] == "questions" else None
    if isinstance(tasks, list) and len(steps) > 1 and not steps[1].isdecimal():
        for task in tasks:  # a setting of all tasks
            _assign(task, steps[1:], value, option)
        return
    *parents, last = steps
    for step in parents:
        key = _key(node, step, option)
        if isinstance(node, dict):
            if node.get(key) is None:  # `judging:` with nothing after it is an empty mapping
                node[key] = {}
        elif isinstance(node[key], str) and steps[0] in CARDS:
            node[key] = {"card": node[key]}  # a card's name becomes a mapping
        node = node[key]
    node[_key(node, last, option)] = value


def _key(node: Any, step: str, option: str) -> Any:
    """Return the key or index that a step means."""
    if isinstance(node, dict):
        return step
    if not isinstance(node, list):
        raise BonError(
            f"{option}: {step!r} is inside neither a mapping nor a list",
            "set the whole value, e.g. --set 'sampling={temperature: 0.8}'",
        )
    is_index = step.isascii() and step.isdecimal() and len(step) < 10
    if is_index and int(step) < len(node):
        return int(step)
    problem = f"index {step} is out of range for" if is_index else f"{step!r} is not an index of"
    last = len(node) - 1
    fix = f"use {f'0 to {last}' if last else 0}" if node else "set the whole list"
    raise BonError(f"{option}: {problem} a list of {len(node)}", fix)
