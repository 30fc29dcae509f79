"""Each engine's settings: classified, bounded, refused in one line, and the same in the docs."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bon.core.errors import BonError
from bon.core.validation import _Field
from bon.engines import ENGINES, build, read_settings
from bon.engines.fields import EngineSettings, role, settings_inside

SETTINGS = {name: entry.settings for name, entry in ENGINES.items()}
ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs" / "engines.md"
NEEDED: dict[str, dict[str, Any]] = {
    "echo": {},
    "none": {},
    "transformers": {"model": "m"},
    "vllm": {"model": "m"},
    "openai": {"model": "m", "base_url": "http://host/v1"},
}


def takes(model: type[EngineSettings], key: str) -> str:
    """What a refusal of the setting says that it takes."""
    field = _Field(model.model_json_schema(), {}, (key,))
    return field.describe(field.schema)[0]


def test_settings_need_no_engine() -> None:
    code = "import sys, bon.engines.settings; print(sorted(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout
    assert "bon.engines.settings" in loaded
    for heavy in ("torch", "vllm", "httpx", "transformers", "numpy", "PIL"):
        assert f"'{heavy}'" not in loaded


REFUSED = [
    ("echo", {"accuracy": 1.5}, "accuracy: found 1.5, expected a number from 0 to 1 -> "),
    ("echo", {"accuracy": float("nan")}, "accuracy: found .nan, expected a number from 0 to 1"),
    ("echo", {"accuracy": "0.5"}, "accuracy: found '0.5', expected a number from 0 to 1"),
    ("echo", {"latency": -1}, "latency: found -1, expected a number from 0 to 3,600"),
    ("echo", {"reply": "Answer"}, "reply is 'Answer', without {choice} -> e.g. 'Answer: {choice}'"),
    ("echo", {"latancy": 1}, "unknown key 'latancy' -> did you mean 'latency'?"),
    ("echo", {"xxx": 1}, "unknown key 'xxx' -> known keys: accuracy, failure_rate"),
    ("transformers", {"dtype": "float8"}, "expected one of auto, float32, bfloat16, float16 -> "),
    ("transformers", {"max_batch": 0}, "found 0, expected a whole number from 1 to 65,536"),
    ("transformers", {"max_pixels": "big"}, "'big', expected a whole number from 1 to 1,000,000"),
    ("transformers", {"head": {"names": []}}, "unknown key 'head.names' -> did you mean"),
    ("transformers", {"head": {"names": []}}, "key 'head.layers' is missing"),
    ("transformers", {"head": {"layers": ["a"], "activation": "swish"}}, "silu, tanh, relu, gelu"),
    ("transformers", {"head": {"layers": []}}, "head.layers: found [], expected a list, each"),
    ("transformers", {"head": 3}, "expected a mapping with keys of layers, activation, file"),
    ("vllm", {"task": "classify"}, "task: found 'classify', expected one of generate, reward"),
    ("vllm", {"engine_args": {"max_model_length": 9}},
     "unknown key 'engine_args.max_model_length' -> did you mean 'max_model_len'?"),
    ("vllm", {"engine_args": {"gpu_memory_utilization": 80}}, "a number above 0 and of at most 1"),
    ("vllm", {"engine_args": 3}, "engine_args: found 3, expected a mapping (key: value)"),
    ("openai", {"base_url": "localhost:8000"}, "is not a URL -> such as http://localhost:8000/v1"),
    ("openai", {"serve": "vllm"}, "unknown key 'serve'"),
    ("openai", {"base_url": "http://me:pw@host/v1"}, "holds credentials"),
    ("openai", {"endpoint": "azure"}, "found 'azure', expected one of plain, openai, vllm"),
    ("openai", {"capabilities": {"logprob": True}}, "logprob' -> did you mean 'logprobs'"),
    ("openai", {"capabilities": {"n": "yes"}}, "capabilities.n: found 'yes', expected true or"),
    ("openai", {"capabilities": {"seed": True}}, "capabilities.seed: found true, expected one of"),
    ("openai", {"price": {"in": 1}}, "unknown key 'price'"),
    ("openai", {"extra_body": {"stream": True}}, "extra_body.stream is a field that bon sets"),
    ("openai", {"extra_body": {"n": 3}}, "extra_body.n is a field that bon sets"),
    ("openai", {"extra_body": {"messages": []}}, "extra_body.messages is a field that bon sets"),
    ("openai", {"response_format": {"type": "json_object"}}, "does not support response_format"),
    ("openai", {"retries": -1}, "retries: found -1, expected a whole number from 0 to 100"),
    ("transformers", {"attn_implementation": "kernels-community/flash-attn3"}, "is code -> name"),
    ("transformers", {"chat_template_kwargs": {"chat_template": "{{ 1 }}"}},
     "`chat_template` is no variable of a template -> a template of your own is"),
    ("vllm", {"chat_template_kwargs": {"a": {"b": {"c": 1}}}}, "chat_template_kwargs.a"),
    ("none", {"modle": "x"}, "did you mean 'model'?"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "wrong", "said"), REFUSED)
def test_every_wrong_setting_is_refused_in_a_line(
    name: str, wrong: dict[str, Any], said: str
) -> None:
    with pytest.raises(BonError) as caught:
        read_settings(name, NEEDED[name] | wrong, "card 'x'")
    assert said in str(caught.value)
    for line in str(caught.value).splitlines():
        assert line.startswith(f"card 'x': engine {name!r}")
        assert line.count("engine") - line.count("engine_args") == 1


@pytest.mark.parametrize("name", ENGINES)
def test_the_smallest_settings_are_enough(name: str) -> None:
    assert name in NEEDED, f"NEEDED of tests/engines/test_settings.py: no entry of {name!r}"
    read_settings(name, NEEDED[name])


@pytest.mark.parametrize("name", ["transformers", "vllm", "openai"])
def test_a_missing_setting_is_named(name: str) -> None:
    with pytest.raises(BonError, match=f"engine {name!r}: key 'model' is missing -> add `model: "):
        read_settings(name, {key: value for key, value in NEEDED[name].items() if key != "model"})


def test_flags_of_vllm_that_are_not_known_here_are_passed_on() -> None:
    flags = {"max_num_seqs": 8, "speculative_config": {"model": "draft"}}
    read = read_settings("vllm", {"model": "m", "engine_args": flags})
    assert read.model_dump()["engine_args"].items() >= flags.items()
    # What is not known to change only the speed counts as shaping.
    shaped = SETTINGS["vllm"].shaping({"engine_args": flags})
    assert shaped == {"engine_args": {"speculative_config": {"model": "draft"}}}
    assert SETTINGS["vllm"].shaping({"engine_args": {"max_num_seqs": 8}}) == {}


def test_only_what_is_marked_may_be_submitted() -> None:
    allowed = {name: set(model.submittable()) for name, model in SETTINGS.items()}
    assert allowed["echo"] == set(SETTINGS["echo"].model_fields)
    assert allowed["none"] == set()
    assert "engine_args.max_model_len" in allowed["vllm"]
    reach_out = ("trust_remote_code", "model", "revision", "model_args", "extra_body", "file")
    money = ("api_key_env", "spending_cap", "runtime_env", "download_dir")
    for names in allowed.values():
        assert not {name.rpartition(".")[2] for name in names} & {*reach_out, *money}


def test_a_head_may_be_named_in_short() -> None:
    short = read_settings("transformers", {"model": "m", "head": "auto"})
    assert short == read_settings("transformers", {"model": "m", "head": {"layers": ["auto"]}})


def test_unknown_engines_and_settings_are_refused_early() -> None:
    with pytest.raises(BonError, match="no engine 'transformer'"):
        build("transformer", {})
    for name in ("vllm", "transformers"):
        with pytest.raises(BonError, match="unknown key 'modle'"):
            build(name, {"modle": "x"})


SHORT = {
    "a whole number": "integer",
    "a number": "number",
    "of at least": "≥",
    "above": ">",
    "and of at most": "and ≤",
    r"from (\S+) to (\S+)": r"\1–\2",
    "true or false": "boolean",
    r" \(at most \d+ long\)": "",
    r"a mapping \(key: value\)": "mapping",
    "a mapping with keys of .*": "mapping",
    "a list, each entry text( .*)?": "list of texts",
    "one of ": "",
}
"""Phrases of refusals, as the tables of docs/engines.md abbreviate them."""


def rows(model: type[EngineSettings], prefix: str = "") -> Iterator[str]:
    """The lines of a table in docs/engines.md."""
    for key, field in model.model_fields.items():
        assert field.description, f"{prefix}{key} needs a description"
        default = "" if field.is_required() else json.dumps(field.default, default=lambda _: None)
        value = takes(model, key)
        for phrase, short in SHORT.items():
            value = re.sub(phrase, short, value)
        if default not in ("", "null", "{}", '""'):
            value += f" (`{default.strip(chr(34))}`)"
        scope = ", ".join(each for each in ("shapes", "submit") if role(field, each))
        yield f"| `{prefix}{key}` | {value} | {scope} | {field.description} |".replace(
            "|  |", "| |"
        )
        if (inside := settings_inside(field.annotation)) and not (
            model is SETTINGS["openai"] and key == "engine_args"  # listed under vllm
        ):
            yield from rows(inside, f"{prefix}{key}.")


@pytest.mark.parametrize("name", ENGINES)
def test_the_docs_list_the_settings_as_they_are(name: str) -> None:
    head = "| setting | value (default) | scope | meaning |\n|---|---|---|---|\n"
    table = head + "\n".join(rows(SETTINGS[name])) + "\n"
    assert table in DOCS.read_text(encoding="utf-8"), f"docs/engines.md lacks:\n{table}"
