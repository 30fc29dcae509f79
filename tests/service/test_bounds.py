"""What a submitted card may cost to read and to use."""

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bon.core.errors import BonError
from bon.core.validation import MAX_ITEMS, _Field
from bon.engines import ENGINES
from bon.experiment.config import Experiment, PolicyCard, RewarderCard
from bon.experiment.prompts import Prompt
from bon.service.settings import Limits
from bon.service.validations.submission import check_template

PIECES = (
    "{% for r in responses %}", "{% endfor %}", "{{ prompt }}", "{{ responses | join }}", "{{ r }}",
    "{{ prompt * 99 }}", "{% set prompt = prompt ~ prompt %}", "{% if prompt %}", "{% endif %}",
    "{{ prompt | center(9999) }}", "{{ range(9999) | join }}", "{{ prompt ~ prompt }}",
    "{{ prompt | join(prompt) }}", "{% for c in prompt %}", "{{ '%9999d' % 1 }}",
    "{% with prompt = prompt ~ prompt %}", "{% endwith %}", "{{ responses | join(prompt) }}",
)  # fmt: skip
LARGE_TEMPLATES = (
    "{% for", "{{ 9 ** 9 ** 9 }}", "{{ prompt.format() }}", "{{ '%1000000d' | format(1) }}",
    "{% include '/etc/passwd' %}", "{{ prompt | join(prompt) }}", "{{ prompt.__class__.__mro__ }}",
    "{{ prompt['__class__'] }}", "{{ '%9999999999d' % 1 }}", "{{ 1 // 0 }}", "{{ prompt }}" * 1000,
    "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "{{\nprompt }}", "{{{ prompt }}{ prompt }}",
    "{% for a in responses recursive %}{{ loop(responses) }}{% endfor %}", "{% extends prompt %}",
    "{% block a %}{{ self.a() }}{% endblock %}", "{% if 1 is divisibleby 0 %}{% endif %}",
    "{% set a = prompt %}" + "{% set a = a ~ a %}" * 60 + "{{ a }}",
)  # fmt: skip


def test_templates_only_show_values():
    check_template("x", "Set {1, 2}.\nQuestion: {{ prompt }}\n[A] {{first}} [B] {{- second -}}")
    for template in LARGE_TEMPLATES:
        with pytest.raises(BonError):
            check_template("x", template)


@given(st.text(max_size=80) | st.lists(st.sampled_from(PIECES), max_size=12).map(" ".join))
def test_what_passes_cannot_grow(text):
    """A template that passes makes at most what it shows of all responses, once for each."""
    with contextlib.suppress(BonError):
        check_template("x", text)
        with contextlib.suppress(BonError):  # a name that it does not know
            created = Prompt("x", text).render(prompt="p" * 100, responses=["r" * 100] * 8)
            assert len(created) <= 64 * (len(text) + 100 * (1 + text.count("{{")))


# ------------------------------------------------------------------ the schema

NUMBERS = ({"minimum", "exclusiveMinimum"}, {"maximum", "exclusiveMaximum"})
CHECKED_ELSEWHERE = {
    "policies[]", "rewarders[]", "grading", "reading",  # cards
    "engine_args",  # the settings of an engine
    "placement.runtime_env",  # refused
}  # fmt: skip


def leaves(schema: dict[str, Any], name: str, root: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Every value in a schema with its own, and whatever holds an open number of them."""
    if place := schema.get("$ref", "").rpartition("/")[2]:
        schema = root["$defs"][place]
    if "properties" in schema:
        for key, inner in schema["properties"].items():
            yield from leaves(inner, f"{name}.{key}".strip("."), root)
    elif "anyOf" in schema:
        for branch in schema["anyOf"]:
            yield from leaves(branch, name, root)
    else:
        yield name, schema
        for inner in (*schema.get("prefixItems", ()), schema.get("items")):
            if inner:
                yield from leaves(inner, f"{name}[]", root)
        if isinstance(inner := schema.get("additionalProperties"), dict):
            yield from leaves(inner, f"{name}{{}}", root)


def bounded(schema: dict[str, Any]) -> bool:
    """Whether a value can be neither too large nor too long."""
    match schema.get("type"):
        case "integer" | "number":
            return all(words & schema.keys() for words in NUMBERS)
        case "string":
            return bool({"enum", "const", "maxLength", "pattern", "format"} & schema.keys())
        case "array":
            return bool({"maxItems", "prefixItems"} & schema.keys())
        case "object":
            return "maxProperties" in schema
    return schema.get("type") in ("boolean", "null") or bool({"enum", "const"} & schema.keys())


SCHEMAS = {
    "experiment": Experiment.model_json_schema(),
    "policy": PolicyCard.model_json_schema(),
    "rewarder": RewarderCard.model_json_schema(),
}


@pytest.mark.parametrize("name", SCHEMAS)
def test_every_value_of_an_experiment_is_bounded_by_its_schema(name):
    schema = SCHEMAS[name]
    open_values = {path for path, leaf in leaves(schema, "", schema) if not bounded(leaf)}
    assert open_values <= CHECKED_ELSEWHERE


@pytest.mark.parametrize("name", ENGINES)
def test_every_setting_that_may_be_submitted_is_bounded_by_its_schema(name):
    settings = ENGINES[name].settings
    schema, allowed = settings.model_json_schema(), tuple(settings.submittable())
    found = [(path, leaf) for path, leaf in leaves(schema, "", schema)
             if path.split("[")[0].split("{")[0] in allowed]  # fmt: skip
    assert len(found) >= len(allowed)
    assert not [path for path, leaf in found if not bounded(leaf)]


def table() -> str:
    """The tables of docs/service.md: what the operator sets, and what the schema bounds."""
    lines = ["| `limits:` | default | meaning |", "|---|---|---|"]
    lines += [
        f"| `{name}` | {field.default:,} | {field.description} |"
        for name, field in Limits.model_fields.items()
    ]
    lines += ["", "| key | bound |", "|---|---|"]
    bounds: dict[str, list[str]] = {}
    for name, schema in SCHEMAS.items():
        for path, leaf in leaves(schema, "", schema):
            key = f"`{path}`" if name == "experiment" else f"card: `{path}`"
            if leaf.get("maxItems", MAX_ITEMS) < MAX_ITEMS and "prefixItems" not in leaf:
                bounds.setdefault(f"at most {leaf['maxItems']} entries", []).append(key)
            elif leaf.get("type") in ("integer", "number") and leaf.get("maximum") != 1e9:
                words = _Field(leaf, {}, ()).describe(leaf)[0].replace(".0", "")
                bounds.setdefault(re.sub("^a (whole )?number ", "", words), []).append(key)
    lines += [f"| {', '.join(dict.fromkeys(keys))} | {words} |" for words, keys in bounds.items()]
    return "\n".join(lines) + "\n"


def test_the_docs_list_the_limits_as_they_are():
    text = (Path(__file__).parents[2] / "docs/service.md").read_text(encoding="utf-8")
    assert len(Limits.model_fields) <= 12
    assert table() in text, f"docs/service.md lacks:\n{table()}"
