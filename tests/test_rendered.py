"""What every shipped card really sends: against the published scripts, and against the day before.

The wording of published prompts is not part of this project. Where one is in the user's cache, or
in a folder laid out as OWNER/NAME/COMMIT/PATH that BON_PROMPTS names, what a card sends is compared
with what the published file's own code makes of the same question; else these tests are skipped.
What a card sends in words of ours is compared with data/rendered.yaml: a change of wording that
nobody meant asks everything again. Where it is meant: BON_RENDERED=write python -m pytest
tests/test_rendered.py.
"""

import ast
import asyncio
import contextlib
import hashlib
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from bon.engines.base import Engine, ImagePart, RankRequest
from bon.experiment import upstream
from bon.experiment.cards import load_policy, load_rewarder, shipped
from bon.policies.prompting import policy_messages, question_block
from bon.rewarders.base import Item
from bon.rewarders.registry import rewarder_class
from bon.work.catalogue import SAMPLE
from tests.rewarders.wordings import in_our_words

STORED = Path(__file__).parent / "data" / "rendered.yaml"
QUESTION, FIRST, SECOND = "What colour {is} the\nbox?", "It is {red}.\n\nAnswer: A", "Blue."
IMAGES = tuple(ImagePart(str(place) * 64, b"") for place in (1, 2))


class Recorder(Engine):
    """Keeps what it is asked and answers nothing."""

    name = "recorder"

    def __init__(self):
        self.asked = []

    def info(self):
        return {"model": "m", "revision": None}

    async def _keep(self, request):
        self.asked.append(request)
        raise EOFError

    generate = likelihood = reward = rank = _keep


def spoken(part):
    return f"[image {part.sha256[0]}]" if isinstance(part, ImagePart) else part


def sent(loaded, prompt, images, responses, monkeypatch):
    """The turns of a rewarder's longest request, each as its role and its parts."""
    engine, cls = Recorder(), rewarder_class(loaded.card)
    keys = tuple(f"k{place}" for place in range(len(responses)))
    item = Item("pair", "i", prompt, images, dict(zip(keys, responses, strict=True)))
    shown = keys[: {"one": 1, "two": 2, "many": len(keys)}[cls.arity]]
    if loaded.card.kind == "python":
        return _own_code(loaded, cls(loaded.card, loaded.prompt, engine), item, shown, monkeypatch)
    with contextlib.suppress(EOFError):
        asyncio.run(cls(loaded.card, loaded.prompt, engine).judge(item, shown, (1,)))
    request = engine.asked[-1]
    if isinstance(request, RankRequest):
        said = (request.instruction, *map(spoken, request.query), "|", *request.document)
        return [("query", *said, request.template)]
    return [(turn.role, *map(spoken, turn.parts)) for turn in request.messages]


def _own_code(loaded, rewarder, item, shown, monkeypatch):
    """What a model that brings its own code is given: the conversation, and how many images."""
    given = []

    with contextlib.suppress(EOFError):
        asyncio.run(rewarder.judge(item, shown, (1,)))
    return given


def asked(loaded, question, images):
    """The turns that a policy is sent."""
    posed = replace(question, images=images)
    turns = policy_messages(posed, loaded.prompt, lambda image: image, loaded.card.images)
    return [(turn.role, *map(spoken, turn.parts)) for turn in turns]


def test_no_card_sends_anything_else_than_the_day_before(monkeypatch):
    """Text, number and places of images, and turns, of every card; published prompts in ours."""
    rendered = {
        f"policies/{name}": asked(load_policy(name, Path()), SAMPLE, IMAGES)
        for name in shipped("policies")
    }
    for name in shipped("rewarders"):
        loaded = in_our_words(name)
        if loaded.card.kind != "ensemble":
            responses = (FIRST, SECOND, "Green.")
            rendered[f"rewarders/{name}"] = sent(
                loaded, question_block(SAMPLE), IMAGES, responses, monkeypatch
            )
    for name, turns in rendered.items():
        parts = [part for turn in turns for part in turn]
        marks = ["[image 1]", "[image 2]"]
        assert [one for one in parts if one in marks] == marks, name
    found = {
        name: hashlib.sha256(repr(turns).encode()).hexdigest()[:16]
        for name, turns in sorted(rendered.items())
    }
    if os.environ.get("BON_RENDERED") == "write":
        STORED.write_text(yaml.safe_dump(found))
    stored = yaml.safe_load(STORED.read_text())
    assert found == stored, "meant? BON_RENDERED=write python -m pytest tests/test_rendered.py"


# --- against the published files


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """Pulls a published prompt from the folder in BON_PROMPTS, or takes it from the cache."""
    mirror = os.environ.get("BON_PROMPTS")
    with pytest.MonkeyPatch.context() as patch:
        if mirror:
            patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))

        def source(name):
            found = upstream.entry(name)
            if mirror:
                upstream.pull(name, Path(mirror).resolve().as_uri())
            if upstream.state(found) != "pulled":
                pytest.skip(f"not on this machine: bon prompts pull {name}, or set BON_PROMPTS")
            return upstream.cache_path(found).read_text()

        yield source


def value(source, name, **given):
    """What a published file assigns to a name."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == name:
            exec(compile(ast.Module([node], []), "published", "exec"), given)
            return given[name]
    raise AssertionError(name)


def function(source, name, **given):
    """A function of a published file."""
    (node,) = [n for n in ast.parse(source).body if getattr(n, "name", "") == name]
    exec(compile(ast.Module([node], []), "published", "exec"), given)
    return given[name]


def order(source):
    """The types of a published user turn's parts, in their order."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.List) and all(isinstance(one, ast.Dict) for one in node.elts):
            keys = [[getattr(key, "value", "") for key in one.keys] for one in node.elts]
            if len(keys) == 2 and all("type" in each for each in keys):
                places = [each.index("type") for each in keys]
                return [one.values[at].value for one, at in zip(node.elts, places, strict=True)]
    return []


UNIFIED = {"Query": QUESTION, "R1": FIRST, "R2": SECOND}
JUDGE = {"card": "gpt-4o-judge", "images": "last"}
FIRST_IMAGE, LAST_IMAGE = ["image", "text"], ["text", "image_url"]

# Published prompt -> the card, what the file's own code makes, the order of the parts there.
JUDGES = {
    "r1-reward": (
        "r1-reward",
        lambda text: function(text, "make_conv_rm")(QUESTION, FIRST, SECOND),
        FIRST_IMAGE,
    ),
    "unified-reward-pair": (
        "unified-reward-7b-pair",
        lambda text: value(text, "prompt_text", **UNIFIED),
        FIRST_IMAGE,
    ),
    "unified-reward-point": (
        "unified-reward-7b-point",
        lambda text: value(text, "prompt_text", Query=QUESTION, Response=FIRST),
        FIRST_IMAGE,
    ),
    "unified-reward-think": (
        "unified-reward-think-7b",
        lambda text: value(text, "prompt_text", **UNIFIED),
        FIRST_IMAGE,
    ),
    "unified-reward-think-qwen3vl": (
        "unified-reward-think-qwen3vl-8b",
        lambda text: value(text, "problem", **UNIFIED),
        [],  # another file sends it
    ),
    "vl-rewardbench": (
        {**JUDGE, "prompt": {"upstream": "vl-rewardbench"}},
        lambda text: function(text, "prompt")({"query": QUESTION, "response": [FIRST, SECOND]}, 0),
        [],
    ),
    "omni-rrm": (
        "omni-rrm-7b",
        lambda text: function(text, "prompt")({"query": QUESTION, "response": [FIRST, SECOND]}, 0),
        [],  # its images go beside the text, which ms-swift puts them before
    ),
    "multimodal-rewardbench": (
        {**JUDGE, "prompt": {"upstream": "multimodal-rewardbench"}},
        lambda text: function(
            text, "prepare_judge_example", judge_prompt=value(text, "judge_prompt")
        )({"ID": 1, "Text": QUESTION, "Output1": FIRST, "Output2": SECOND, "Image": "i",
           "Better": "Output1"})["Text"],
        LAST_IMAGE,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", JUDGES)
def test_a_judge_is_sent_what_the_published_script_sends(name, published, monkeypatch):
    card, build, parts = JUDGES[name]
    source = published(name)
    assert order(source) == parts
    loaded = load_rewarder(card, Path())
    assert loaded.prompt.id == f"upstream:{name}"
    turn = ("[image 1]", build(source))
    expected = [("user", *(reversed(turn) if loaded.card.images == "last" else turn))]
    assert sent(loaded, QUESTION, IMAGES[:1], (FIRST, SECOND), monkeypatch) == expected


def test_a_reranker_reads_a_pair_in_the_published_layout(published):
    jinja2 = pytest.importorskip("jinja2")
    once = jinja2.Template(published("qwen3-vl-reranker")).render(instruction="Find it.")
    expected = jinja2.Template(once).render(query_content=QUESTION, doc_content=FIRST)
    for name in ("qwen3-vl-reranker-2b", "qwen3-vl-reranker-8b"):
        prompt = load_rewarder(name, Path()).prompt
        assert prompt.render(instruction="Find it.", query=QUESTION, document=FIRST) == expected


@pytest.mark.parametrize("system", ["internvl-system", "visualprm-system"])
def test_visualprm_opens_and_goes_on_as_published(system, published, monkeypatch):
    source = published(system)
    if system == "internvl-system":
        module = type(sys)("published")
        monkeypatch.setitem(sys.modules, "published", module)  # its dataclass looks there
        exec(compile(source, "published", "exec"), module.__dict__)
        opening = module.get_conv_template("internvl2_5").system_message
    else:
        opening = value(source, "PRM_SYSTEM_PROMPT")
    loaded = load_rewarder({"card": "visualprm-8b", "system": {"upstream": system}}, Path())
    # split_response of the published model's code: nothing is stripped or left out.
    response = " It is {red}. \n\n\n\nAnswer: A\n"
    first, empty, last = response.split("\n\n")
    assert empty == ""
    question = f"{QUESTION}\n\n### Solution Process:\n{first}"
    for images, opened in (
        (IMAGES[:1], ("### Question:\n", "[image 1]", f"\n{question}")),
        ((), ("### Question:\n", question)),
    ):
        assert sent(loaded, QUESTION, images, (response,), monkeypatch) == [
            ("system", opening),
            ("user", *opened),
            ("assistant", "+"),
            ("user", empty),
            ("assistant", "+"),
            ("user", last),
        ]
    assert load_rewarder("visualprm-8b", Path()).prompt.system.id == "upstream:internvl-system"


@pytest.mark.parametrize("mode", ["cot", "direct"])
@pytest.mark.parametrize("kind", ["standard", "vision"])
def test_a_policy_is_sent_what_mmmu_pros_scripts_send(mode, kind, published):
    name = f"mmmu-pro-{mode}" + ("-vision" if kind == "vision" else "")
    instruction = yaml.safe_load(published(name))[mode][kind]
    loaded = load_policy({"card": "gpt-4o", "prompt": {"upstream": name}, "images": "last"}, Path())
    posed = replace(SAMPLE, text="Which {one}?")
    lines = "\n".join(f"{letter}. {o}" for letter, o in zip("ABC", SAMPLE.options, strict=True))
    # construct_prompt of the published scripts, which live in other files.
    text = instruction if kind == "vision" else f"Which {{one}}?\n{lines}\n{instruction}"
    assert asked(loaded, posed, IMAGES[:1]) == [("user", text, "[image 1]")]


def test_every_published_prompt_is_compared():
    compared = {*JUDGES, "internvl-system", "visualprm-system"}
    compared.add("qwen3-vl-reranker")
    compared |= {f"mmmu-pro-{mode}{kind}" for mode in ("cot", "direct") for kind in ("", "-vision")}
    assert set(upstream.registry()) == compared
