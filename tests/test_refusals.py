"""Every refusal of a value: where it stands, what was found, what is expected, what would do."""

import asyncio
import math
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import BaseModel

from bon.core.errors import BonError
from bon.core.sampling import Sampling
from bon.core.validation import MAX_MISTAKES, validate
from bon.engines import build
from bon.experiment import config
from bon.experiment.cards import load_policy, load_rewarder
from bon.experiment.prompts import NAMES
from bon.experiment.yamlfile import load_yaml, read_document
from bon.rewarders.base import Item
from bon.rewarders.registry import rewarder_class

MODELS: tuple[type[BaseModel], ...] = (
    config.Experiment,
    config.PolicyCard,
    config.RewarderCard,
    config.DatasetSpec,
    config.PairsSpec,
    config.Judging,
    config.AnalysisConfig,
    config.ClusterConfig,
    config.VerdictRule,
    config.ScoreRule,
    config.Placement,
    config.Price,
    Sampling,
)
WRONG = (
    None,
    True,
    "",
    "no such value",
    -1,
    0,
    3.5,
    10**30,
    math.inf,
    math.nan,
    [],
    [1],
    [[1]],
    ["a", None],
    {},
    {"a": 1},
    {1: 2},
    {"text": [1]},
    "x" * 300,
)
FOREIGN = re.compile(
    r"[Ii]nput should|[Vv]alue error|valid (string|integer|number|dict|list|tuple|bool)|"
    r"[Ff]ield required|type=|pydantic|str_|NoneType|Union\[|<class|validation error"
)
NEEDED: dict[type[BaseModel], dict[str, Any]] = {
    config.Experiment: {"questions": {"benchmark": "mmmu_pro"}, "policies": ["x"]},
    config.PolicyCard: {"name": "p"},
    config.RewarderCard: {"name": "r", "kind": "scalar"},
    config.DatasetSpec: {"benchmark": "mmmu_pro"},
    config.PairsSpec: {"benchmark": "vl_rewardbench"},
    config.VerdictRule: {"pattern": "(a)"},
    config.ScoreRule: {"pattern": "(a)", "yes": ["Y"], "no": ["N"]},
    config.Price: {"input_per_million": 1, "output_per_million": 1},
}


def refusal(model: type[BaseModel], data: dict[str, Any], file: Path) -> str:
    file.write_text(yaml.safe_dump(data, sort_keys=False, allow_unicode=True))
    document = read_document(file)
    try:
        validate(model, document.data, document.origin)
    except BonError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_every_field_says_in_our_words_what_it_wants(model, tmp_path):
    file = tmp_path / "e.yaml"
    refused = 0
    for name in model.model_fields:
        for wrong in WRONG:
            data = {"notes": "first"} if "notes" in model.model_fields else {}
            data |= {**NEEDED.get(model, {}), name: wrong}
            text = refusal(model, data, file)
            for line in text.splitlines():
                refused += 1
                assert not FOREIGN.search(line), line
                assert re.match(re.escape(str(file)) + r":\d+:\d+: ", line), line
                assert " -> " in line, line
                assert len(line) < 500, line
            found = re.search(r"`(\w+: [^`]*)`$", text.partition("\n")[0])
            if found and found[1].startswith(f"{name}:"):
                advised = {**data, **load_yaml(found[1])}
                assert refusal(model, advised, file) == "", (text, found[1])
    assert refused > 2 * len(model.model_fields)


def test_a_refusal_names_the_line_and_the_column_of_the_key(tmp_path):
    file = tmp_path / "e.yaml"
    file.write_text("name: mine\nquestions:\n  benchmark: mmmu_pro\n  limit: none\npolicies: [x]\n")
    document = read_document(file)
    with pytest.raises(BonError) as error:
        validate(config.Experiment, document.data, document.origin)
    assert str(error.value) == (
        f"{file}:4:3: questions.limit: found 'none', expected a whole number from 1 to 10,000,000 "
        "-> for example `limit: 1`"
    )


def test_several_mistakes_are_said_at_once_but_not_all_of_many(tmp_path):
    mistakes = {f"unknown{i}": i for i in range(9)}
    text = refusal(config.Experiment, {**NEEDED[config.Experiment], **mistakes}, tmp_path / "e")
    assert text.count("unknown key") == MAX_MISTAKES
    assert text.endswith("and 4 more mistakes -> fix these first")


@pytest.mark.parametrize(
    ("kind", "more", "said"),
    [
        ("pairwise", "", "needs `verdict:`"),
        ("pointwise", "", "needs `score:`"),
        ("stepwise", "", "needs `score:`"),
        ("ensemble", "", "needs `members:`"),
        ("python", "", "needs `python:`"),
        ("pairwise", "verdict: {pattern: (a), first: []}", "`first` is empty"),
        ("pairwise", "verdict: {pattern: (a), tie: ['1']}", "'1' is in both `first` and `tie`"),
        ("pointwise", "score: {yes: [Yes]}", "`yes` without `no`"),
        ("pointwise", "score: {values: {Good: 1}}", "gives neither a pattern nor words"),
        ("pointwise", "score: {pattern: (a), range: [10, 0]}", "`range: [10, 0]` is empty"),
        (
            "scalar",
            "sampling: {temperature: .inf}",
            "sampling.temperature: found .inf, expected a finite number",
        ),
        ("scalar", "sampling: {temperature: -1}", "expected a number from 0 to 100"),
        ("scalar", f"name: {'x' * 300}", "expected up to 100 letters"),
    ],
)
def test_what_could_never_judge_is_refused(kind, more, said, tmp_path):
    card = tmp_path / "card.yaml"
    name = "" if more.startswith("name:") else "name: mine\n"
    card.write_text(f"{name}engine: echo\nkind: {kind}\n{more}\n")
    with pytest.raises(BonError, match=re.escape(said)) as error:
        load_rewarder("card.yaml", tmp_path)
    assert re.match(r".*card\.yaml:\d+:\d+: ", str(error.value))
    assert " -> " in str(error.value)


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ("{{ frist }}", "unknown name 'frist' -> did you mean 'first'?"),
        ("{{ response }}", "unknown name 'response'"),
        ("{{ first", "unexpected end of template"),
        ("{% if first %}", "Unexpected end of template"),
        ("{{ first | uper }}", "no filter 'uper' (its line 1) -> did you mean 'upper'?"),
        ("{{ first is evn }}", "no test 'evn'"),
        ("{% include 'x' %}", "reads another template"),
        ("{{ " + "(" * 4000 + " }}", "cannot be read"),
        ("{{ 1" + "0" * 5000 + " }}", "cannot be read"),
    ],
)
def test_a_prompt_that_cannot_be_filled_in_is_refused_before_a_run(template, said, tmp_path):
    card = {"name": "j", "kind": "pairwise", "engine": "echo", "verdict": {"pattern": "(a)"}}
    with pytest.raises(BonError, match=re.escape(said)) as error:
        load_rewarder({**card, "prompt": {"text": template}}, tmp_path)
    assert "card 'j': prompt 'inline'" in str(error.value)


def test_what_a_prompt_asks_about_first_it_may_name(tmp_path):
    prompt = {"text": "{{ question }}{% if hint is defined %}{{ hint }}{% endif %}"}
    assert load_policy({"name": "p", "engine": "echo", "prompt": prompt}, tmp_path).prompt.text
    with pytest.raises(BonError, match=r"prompt: '\.\./\.\./x' leads to another folder"):
        load_policy({"name": "p", "engine": "echo", "prompt": "../../x"}, tmp_path)


@pytest.mark.parametrize("kind", [kind for kind in NAMES if kind != "policy"])
def test_every_kind_gives_its_prompt_the_names_that_are_let_through(kind, tmp_path):
    prompt = "".join(f"{{{{ {name} }}}}|" for name in NAMES[kind])
    rule = {"pattern": "([12])"}
    card = {"name": "j", "kind": kind, "engine": "echo", "prompt": {"text": prompt}}
    card |= {"verdict": rule} if kind == "pairwise" else {"score": rule}
    loaded = load_rewarder(card, tmp_path)
    rewarder = rewarder_class(loaded.card)(loaded.card, loaded.prompt, build("echo", {}))
    responses = {"a": "one", "b": "two"}
    item = Item("question", "key", "what?", (), responses)
    shown = ("a",) if rewarder.arity == "one" else ("a", "b")
    assert asyncio.run(rewarder.judge(item, shown, (1,)))


@pytest.mark.parametrize(
    ("kind", "options", "said"),
    [
        ("stepwise", {"max_step": 3}, "unknown key 'max_step' -> did you mean 'max_steps'?"),
        (
            "stepwise",
            {"max_steps": True},
            "max_steps: found true, expected a whole number from 1 to",
        ),
        ("rerank", {"turns": True}, "unknown key 'turns' -> known keys: instruction"),
        ("scalar", {"instruction": "x"}, "kind scalar has none -> leave `options` out"),
    ],
)
def test_options_are_those_of_the_kind(kind, options, said, tmp_path):
    card = {"name": "j", "kind": kind, "engine": "echo", "options": options}
    (tmp_path / "card.yaml").write_text(yaml.safe_dump(card | {"score": {"pattern": "([12])"}}))
    with pytest.raises(BonError) as raised:
        load_rewarder("card.yaml", tmp_path)
    line = str(raised.value)
    assert re.match(rf".*card.yaml:\d+:\d+: options: (of )?kind {kind}[: ]", line), line
    assert said in line
    assert "\n" not in line


def test_keys_are_text(tmp_path):
    card = {"name": "j", "kind": "python", "python": "judges:Mine"}
    file = tmp_path / "card.yaml"
    file.write_text(yaml.safe_dump({**card, "engine": "none", "options": {1: {2: 0, "x": 1}}}))
    options = load_rewarder("card.yaml", tmp_path).card.options
    assert options.model_extra == {"1": {"2": 0, "x": 1}}
