"""Templates that come with a checkpoint: ordinary ones as transformers renders them, hostile ones
ended."""

import pytest

pytest.importorskip("transformers")

from tiny_architectures import TEMPLATE
from tiny_checkpoint import TEMPLATE as TINY
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast, processing_utils
from transformers.utils import chat_template_utils

from bon.core.errors import BonError
from bon.engines.base import Message
from bon.engines.hf import template_process
from bon.engines.hf.template_sandbox import _SANDBOX
from bon.engines.processors import load_processor
from bon.engines.rendering import Renderer

HELLO = (Message("user", ("Hallo, größte Welt",)),)
HOSTILE = {
    "memory": "{{ 'a' * 9000000000 }}",
    "memory of a filter": "{{ 'a' | center(9000000000) }}",
    "memory in doublings": "{% set n = namespace(a='a') %}{% for i in range(60) %}"
    "{% set n.a = n.a ~ n.a %}{% endfor %}{{ n.a }}",
    "a long reply": "{{ 'a' * 20000000 }}",
    "time": "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
    "time of one operation": "{{ 9 ** (9 ** 9) }}",
}
ORDINARY = {
    "of a tiny model": TINY,
    "of tiny architectures": TEMPLATE,
    "of everything it may use": "{% for m in messages %}{%- generation %}{{ m | tojson(indent=2) }}"
    "{% endgeneration %}\n  {% if loop.index > 4 %}{% break %}{% endif %}\n{{ eos_token }}"
    "{% endfor %}{{ strftime_now('%Y') | length }}{% if mood %}{{ mood }}{% endif %}"
    "{% if sad is defined %}{{ raise_exception('sad') }}{% endif %}",
}


@pytest.fixture
def load(tmp_path):
    """A tokenizer with a template, loaded as engines load it."""

    def loaded(template):
        made = PreTrainedTokenizerFast(
            tokenizer_object=Tokenizer(models.WordLevel({"<end>": 0}, "<end>")), eos_token="<end>"
        )
        made.chat_template = template
        made.save_pretrained(tmp_path)
        return load_processor(str(tmp_path))

    return loaded


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_template_ends_in_one_line_and_the_next_is_rendered(name, load):
    with pytest.raises(BonError, match="a chat template takes more than 5 s or 512 MB"):
        Renderer(load(HOSTILE[name]), "a/b").prompt(HELLO)
    assert Renderer(load("{{ messages[0].role }}"), "a/b").prompt(HELLO).text == "user"


@pytest.mark.parametrize("name", ORDINARY)
def test_ordinary_templates_are_rendered_as_transformers_does(name, load):
    tokenizer = load(ORDINARY[name])
    turns = [{"role": "user", "content": "Größe <b> 'x'"}, {"role": "assistant", "content": "y"}]
    values = {"messages": turns, "add_generation_prompt": True, "mood": "gut"}
    own = tokenizer.apply_chat_template(
        turns, tokenize=False, add_generation_prompt=True, mood="gut"
    )
    compiled = chat_template_utils._cached_compile_jinja_template(ORDINARY[name])
    assert own == compiled.render(**values, eos_token="<end>", tools=None, documents=None)
    theirs, ours = compiled.environment, template_process.environment()
    assert ours.filters.keys() == theirs.filters.keys()
    assert ours.globals.keys() == theirs.globals.keys()
    assert ours.tests.keys() == theirs.tests.keys()


def test_what_a_template_raises_is_an_error_of_the_item_alone(load):
    renderer = Renderer(load("{{ raise_exception('roles must alternate') }}"), "a/b")
    with pytest.raises(Exception, match="roles must alternate"):
        renderer.prompt(HELLO)


def test_the_process_of_templates_knows_no_secret(load, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hunter2hunter2")
    if _SANDBOX.process is not None:
        _SANDBOX.process.kill()
        _SANDBOX.process.wait()
    Renderer(load(TINY), "a/b").prompt(HELLO)
    with open(f"/proc/{_SANDBOX.process.pid}/environ", "rb") as file:
        assert b"hunter2" not in file.read()


def test_processors_list_the_names_of_a_template_in_the_sandbox(load):
    load(TINY)
    assert processing_utils._get_template_variables(TINY) >= {"messages"}
    with pytest.raises(BonError):
        processing_utils._get_template_variables(HOSTILE["time of one operation"])


def test_a_template_is_parsed_once_for_its_names_and_not_at_every_prompt(load, monkeypatch):
    load(TINY)
    asked = []
    ask = _SANDBOX.ask
    monkeypatch.setattr(_SANDBOX, "ask", lambda value: asked.append(value) or ask(value))
    template = TINY + "{# of this test #}"
    for _ in range(3):
        processing_utils._get_template_variables(template)
    assert asked == [[template, None]]
