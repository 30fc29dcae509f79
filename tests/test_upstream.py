"""Published prompts: found in a file without running it, checked, cached. No network."""

import asyncio
import hashlib
import http.server
import threading
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bon.commands.main import app
from bon.core.errors import BonError
from bon.engines import build
from bon.experiment import upstream
from bon.experiment.cards import load_policy, load_rewarder
from bon.experiment.prompts import Prompt
from bon.planning.plan import make_plan
from bon.rewarders.base import Item
from bon.rewarders.registry import rewarder_class
from bon.running.runner import run
from bon.work.preflight import unpulled
from bon.work.setup import prepare, read_experiment, shipped_experiments

SOURCE = '''
raise SystemExit("this file must never be run")
other = "no"

def ask(item, answers):
    text = f"""Judge {{this}}: {item["query"]}
1: {answers[0]}
2: {answers[1]}
"""
    return text

plain = "Mark " "{question} <{reply}> as {{n}}\\n"
added = ("{% if %} " + f"[{Query}]")
built = make("a")
'''
VALUES = {"item['query']": "prompt", "answers[0]": "first", "answers[1]": "second"}


def registered(**changes):
    data = {
        "title": "t",
        "repository": "some/where",
        "commit": "a" * 40,
        "path": "judge.py",
        "sha256": hashlib.sha256(SOURCE.encode()).hexdigest(),
        "licence": "none",
        "values": VALUES,
        "name": "text",
        "function": "ask",
    }
    return upstream.Upstream.model_validate({"template": "0" * 64, **data, **changes})


def with_template(found):
    """The entry of a prompt that was registered together with its template."""
    digest = hashlib.sha256(upstream.template(found, SOURCE, "").encode()).hexdigest()
    return found.model_copy(update={"template": digest})


@pytest.fixture
def known(monkeypatch, tmp_path):
    """A registry of one prompt, an empty cache, and a mirror that holds its file."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(upstream, "registry", lambda: {"judge": with_template(registered())})
    file = tmp_path / "mirror" / "some" / "where" / ("a" * 40) / "judge.py"
    file.parent.mkdir(parents=True)
    file.write_text(SOURCE)
    return file


def filled(text, **values):
    return Prompt("p", text).render(**values)


def test_an_f_string_in_a_function_becomes_a_template_with_our_names():
    text = upstream.template(registered(), SOURCE, "judge")
    shown = filled(text, prompt="{q} {{x}}", first="a", second="b")
    assert shown == "Judge {this}: {q} {{x}}\n1: a\n2: b\n"


def test_a_text_for_format_and_added_literals():
    found = registered(name="plain", function="", values={"question": "prompt", "reply": "first"})
    text = upstream.template(found, SOURCE, "")
    assert filled(text, prompt="Q", first="A") == "Mark Q <A> as {n}\n"
    found = registered(name="added", function="", values={"Query": "prompt"})
    assert filled(upstream.template(found, SOURCE, ""), prompt="Q") == "{% if %} [Q]"


TWICE = '<s>{{ task }}: {% raw %}{{ question }}{% endraw %}\n{% raw %}{{ "" }}{% endraw %}'


def test_a_whole_template_that_is_filled_in_twice():
    found = registered(
        name="", function="", jinja=True, values={"task": "instruction", "question": "query"}
    )
    text = upstream.template(found, TWICE, "")
    assert filled(text, instruction="Find", query="{Q}") == "<s>Find: {Q}\n"
    with pytest.raises(BonError, match="more than name values"):
        upstream.template(found, TWICE + "{% if a %}", "")


def test_text_between_markers():
    found = registered(name="", markers=("<<", ">>"), values={"q": "prompt"})
    assert filled(upstream.template(found, "x << ask {q} >> y", ""), prompt="Q") == " ask Q "
    with pytest.raises(BonError, match="markers"):
        upstream.template(found, "nothing here", "")


def test_text_of_a_yaml_file_and_what_the_code_puts_before_it():
    source = "cot:\n  standard: 'Answer {it}. %}'\n  other: [1]\n"
    found = registered(
        keys=["cot", "standard"], before="{{ question }}\n{{ options }}\n", values={}, name=""
    )
    text = upstream.template(found, source, "")
    assert filled(text, question="Q?", options="A. x") == "Q?\nA. x\nAnswer {it}. %}"
    for keys in (["cot", "missing"], ["cot", "standard", "deeper"], ["cot", "other"]):
        with pytest.raises(BonError, match=f"no text under {'.'.join(keys)}"):
            upstream.template(found.model_copy(update={"keys": tuple(keys)}), source, "")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": "absent"}, "no assignment to"),
        ({"function": "absent"}, "no function"),
        ({"name": "built", "function": ""}, "more than string literals"),
        ({"values": {**VALUES, "more": "response"}}, "no placeholder 'more'"),
        ({"values": {"answers[0]": "first"}}, "unknown placeholder"),
    ],
)
def test_a_prompt_that_is_not_where_it_should_be(changes, message):
    with pytest.raises(BonError, match=message):
        upstream.template(registered(**changes), SOURCE, "judge")


def test_pull_show_verify_over_http(known, tmp_path):
    handler = http.server.SimpleHTTPRequestHandler

    class Quiet(handler):
        def __init__(self, *args):
            super().__init__(*args, directory=str(tmp_path / "mirror"))

        def log_message(self, *args):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with pytest.raises(BonError, match="bon prompts pull judge"):
            upstream.published("judge").render(prompt="", first="", second="")
        path = upstream.pull("judge", f"http://127.0.0.1:{server.server_port}")
        server.shutdown()
    assert path.read_text() == SOURCE
    assert upstream.pull("judge", "http://127.0.0.1:1") == path  # not fetched again
    assert "Judge" in upstream.published("judge").text
    card = {"name": "j", "kind": "pairwise", "engine": "echo", "verdict": {"pattern": "(x)"}}
    loaded = load_rewarder({**card, "prompt": {"upstream": "judge"}}, tmp_path)
    assert loaded.prompt.id == "upstream:judge"


def test_another_file_is_refused_and_nothing_is_kept(known, tmp_path):
    known.write_text(SOURCE + "# changed")
    with pytest.raises(BonError, match="is not the registered file"):
        upstream.pull("judge", (tmp_path / "mirror").as_uri())
    assert not (tmp_path / "cache").exists()


def test_no_network_is_one_line(known):
    with pytest.raises(BonError, match="cannot fetch"):
        upstream.pull("judge", "http://127.0.0.1:1")


def test_the_commands(known, tmp_path):
    run = CliRunner().invoke
    mirror = str(tmp_path / "mirror")
    assert "not pulled" in run(app, ["prompts", "list"]).output
    assert run(app, ["prompts", "pull", "--mirror", mirror]).exit_code == 0
    assert "not pulled" not in run(app, ["prompts", "list"]).output
    upstream.cache_path(registered()).write_text("something else")
    assert "damaged" in run(app, ["prompts", "list"]).output
    with pytest.raises(BonError, match="pull judge"):
        upstream.published("judge").text  # noqa: B018


def test_a_template_that_is_not_the_registered_one_is_not_used(known, tmp_path, monkeypatch):
    monkeypatch.setattr(upstream, "registry", lambda: {"judge": registered()})
    with pytest.raises(BonError, match=r"template has SHA-256 \w{12}…, not the registered 0{12}…"):
        upstream.pull("judge", (tmp_path / "mirror").as_uri())
    assert not (tmp_path / "cache").exists()


def test_a_card_without_its_published_prompt_is_not_asked(known, tmp_path):
    card = {"name": "j", "kind": "pairwise", "engine": "echo", "verdict": {"pattern": "(x)"}}
    card["prompt"] = {"upstream": "judge"}
    before = load_rewarder(card, tmp_path)
    assert before.prompt.unpulled == ("judge",)
    with pytest.raises(BonError, match="prompt 'judge' is not on this machine -> bon prompts pull"):
        before.prompt.render(prompt="", first="", second="")
    item = Item("question", "i", "Why?", (), {"a": "x", "b": "y"})
    judge = rewarder_class(before.card)(before.card, before.prompt, build("echo", {}))
    with pytest.raises(BonError, match="bon prompts pull judge"):
        asyncio.run(judge.judge(item, ("a", "b"), (1,)))
    upstream.pull("judge", (tmp_path / "mirror").as_uri())
    after = load_rewarder(card, tmp_path)
    assert not after.prompt.unpulled
    assert (after.spec, after.prompt.sha256) == (before.spec, before.prompt.sha256)
    assert after.prompt.sha256 == hashlib.sha256(after.prompt.text.encode()).hexdigest()


def test_a_run_refuses_at_its_start_with_one_command_and_a_plan_counts(known, tmp_path):
    judge = {"kind": "pairwise", "engine": "echo", "verdict": {"pattern": "(x)"}}
    own = {"text": "{{ prompt }} {{ first }} {{ second }}"}
    (tmp_path / "rows.jsonl").write_text(
        '{"id": "q", "question": "?", "options": ["x", "y"], "answer": "A"}'
    )
    data = {"benchmark": "multiple_choice", "path": "rows.jsonl"}
    experiment = {
        "name": "e",
        "questions": data,
        "policies": [{"name": "p", "engine": "echo", "prompt": "bare"}],
        "rewarders": [
            {**judge, "name": "a", "prompt": {"upstream": "judge"}},
            {**judge, "name": "b", "prompt": {"upstream": "judge"}},
            {**judge, "name": "c", "prompt": own},
        ],
    }
    setup = prepare(experiment, tmp_path)
    said = "needed by a, b: the published prompt 'judge' is not on this machine"
    with pytest.raises(BonError, match=f"^{said} -> bon prompts pull judge$"):
        run(setup, tmp_path / "run", quiet=True)
    assert not (tmp_path / "run").exists()
    assert f"{said} -> bon prompts pull judge" in make_plan(setup).warnings
    assert len(make_plan(setup).rewarders) == 3
    upstream.pull("judge", (tmp_path / "mirror").as_uri())
    assert not any(
        "published" in line for line in make_plan(prepare(experiment, tmp_path)).warnings
    )


@pytest.mark.parametrize("pulled", [False, True])
def test_a_prompt_for_another_kind_is_refused_pulled_or_not(pulled, known, tmp_path):
    if pulled:
        upstream.pull("judge", (tmp_path / "mirror").as_uri())
    ours = {"name": "j", "kind": "pairwise", "engine": "echo", "verdict": {"pattern": "(x)"}}
    own, other = {"text": "{{ prompt }} {{ first }} {{ second }}"}, {"upstream": "judge"}
    assert load_rewarder({**ours, "prompt": other, "system": {"text": "Hm."}}, tmp_path)
    with pytest.raises(BonError, match=r"prompt 'upstream:judge': unknown name 'first'"):
        load_rewarder({**ours, "prompt": own, "system": other}, tmp_path)
    with pytest.raises(BonError, match=r"prompt 'upstream:judge': unknown name 'first'"):
        load_policy({"name": "p", "engine": "echo", "prompt": other}, tmp_path)


@pytest.mark.parametrize("name", shipped_experiments())
def test_a_shipped_experiment_says_what_to_pull_first(name, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    said = " ".join(shipped_experiments()[name].read_text().replace("\\\n#", " ").split())
    for lacking in unpulled(read_experiment(Path(name)).models):
        command = next(line for line in said.split(" # ") if "bon prompts pull" in line)
        assert sorted(command.split()[3:]) == lacking.fix.split()[3:]


def test_a_server_refuses_them_before_it_starts(known):
    pytest.importorskip("fastapi")
    from bon.service.online.selector import Online, Selector

    judge = {"kind": "pairwise", "engine": "echo", "verdict": {"pattern": "(x)"}}
    rewarders = [{**judge, "name": "j", "prompt": {"upstream": "judge"}}]
    with pytest.raises(BonError, match=r"^needed by j: .*bon prompts pull judge$"):
        Selector(Online(rewarders=rewarders), Path())


def test_the_shipped_registry_is_valid_and_names_only_our_placeholders():
    for name, found in upstream.registry().items():
        assert found.url().startswith("https://raw.githubusercontent.com/"), name
        assert set(found.values.values()) <= {
            *("prompt", "first", "second", "response", "responses"),
            *("instruction", "query", "document"),
        }
        assert bool(found.name) + bool(found.markers) + bool(found.keys) + found.jinja == 1


def test_an_unknown_name_gets_the_nearest():
    with pytest.raises(BonError, match="did you mean 'r1-reward'"):
        upstream.published("r1-rewrd")


def test_no_published_wording_is_shipped():
    """What is kept of a published prompt is where it is, never a sentence of it."""
    text = Path(upstream.REGISTRY).read_text()
    assert max(len(line) for line in text.splitlines() if "sha256" not in line) < 130
