"""Models without a `revision`: the run keeps to the commit that the hub had at first."""

import asyncio
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from bon.core.errors import BonError
from bon.dispatch.worker import Host, JudgeTask
from bon.planning.plan import make_plan
from bon.rewarders.base import Item
from bon.running.runner import run
from bon.running.start import start
from bon.storage.store import Store
from bon.work.setup import prepare
from bon.work.stored_models import pin_commits, unpinned, with_commits, with_stored_specs

pytest.importorskip("huggingface_hub")

CLASS = '''
from bon.rewarders.base import Rewarder, Verdict

class Loads(Rewarder):
    """Says which commit it would load."""

    arity = "one"

    async def judge(self, item, shown, seeds):
        return [Verdict("scored", score=1.0, text=str(self.engine.info()["revision"]))] * len(seeds)
'''


@pytest.fixture
def hub(monkeypatch, tmp_path):
    """A hub that knows two models; its dict says at which commits they are."""
    commits = {"org/reward": "a" * 40, "org/judge": "b" * 40}

    class Hub(BaseHTTPRequestHandler):
        def do_GET(self):
            model = self.path.partition("?")[0].removeprefix("/api/models/")
            found = commits.get(model.removesuffix("/revision/main"))
            body = json.dumps({"id": model, "sha": found} if found else {"error": "?"}).encode()
            self.send_response(200 if found else 404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Hub) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
        yield commits
        server.shutdown()


@pytest.fixture
def experiment(make_experiment, tmp_path):
    (tmp_path / "loads_at.py").write_text(CLASS)
    found = make_experiment()
    own = {"kind": "python", "python": "loads_at:Loads", "engine": "none"}
    found["rewarders"] = [
        {**own, "name": "loose", "model": "org/reward"},
        {**own, "name": "fixed", "model": "org/judge", "revision": "c" * 40},
        {**own, "name": "nowhere", "model": "org/gone"},
        {**own, "name": "without"},
    ]
    return found


def loaded_at(setup, name):
    """The commit that a worker would load a model at."""
    item = Item("question", "i", "Why?", (), {"k": "x"})
    specs = setup.specs()
    reply = asyncio.run(Host(specs).run(name, [JudgeTask(item, (), 1)]))
    return reply.judgements[0].text


def test_a_run_keeps_to_the_commit_that_the_hub_had_when_it_started(
    hub, experiment, tmp_path, capsys
):
    setup = prepare(experiment, tmp_path)
    assert [one.card.name for one in unpinned(setup.models)] == ["loose", "nowhere"]
    before = [one.spec for one in setup.models]
    with Store(tmp_path / "run") as store:
        pin_commits(setup, store)
        start(setup, store, quiet=True)
    assert "this run keeps to org/reward aaaaaaaaaaaa\n" in capsys.readouterr().err
    hub["org/reward"] = "d" * 40  # the branch moves
    hub["org/gone"] = "e" * 40
    setup = prepare(experiment, tmp_path)
    with Store(tmp_path / "run") as store:
        pin_commits(setup, store, quiet=True)
        for kept in (with_commits(setup, store), with_stored_specs(setup, store)):
            said = [loaded_at(kept, one.card.name) for one in kept.rewarders]
            assert said == ["a" * 40, "c" * 40, "e" * 40, "None"]
            assert [one.spec for one in kept.models] == before  # nothing is asked again


def test_a_run_looks_them_up_as_it_starts(hub, experiment, tmp_path):
    (tmp_path / "questions.jsonl").write_text("{}")  # which ends it there
    with pytest.raises(BonError):
        run(prepare(experiment, tmp_path), tmp_path / "run", quiet=True)
    with Store(tmp_path / "run") as store:
        assert store.meta("commits") == {"org/reward": "a" * 40}


def test_what_was_asked_before_stays_at_what_was_loaded_then(
    hub, experiment, tmp_path, monkeypatch
):
    setup = prepare(experiment, tmp_path)
    monkeypatch.setattr(Store, "has", lambda *_: True)
    with Store(tmp_path / "run") as store:
        pin_commits(setup, store, quiet=True)
        assert store.meta("commits", {}) == {}  # not known, and not made up
        store.set_meta(engines={"loose": {"commit": "f" * 40}})
        pin_commits(setup, store, quiet=True)
        assert store.meta("commits") == {"org/reward": "f" * 40}


def test_without_the_hub_the_cache_says_it_or_nothing(experiment, tmp_path, hub, monkeypatch):
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")
    refs = tmp_path / "hub" / "models--org--reward" / "refs"
    refs.mkdir(parents=True)
    (refs / "main").write_text("9" * 40)
    with Store(tmp_path / "run") as store:
        pin_commits(prepare(experiment, tmp_path), store, quiet=True)
        assert store.meta("commits") == {"org/reward": "9" * 40}


def test_a_plan_names_them(hub, experiment, tmp_path):
    plan = make_plan(prepare(experiment, tmp_path))
    (line,) = [w for w in plan.warnings if "no revision on the card" in w]
    assert line.endswith("loose, nowhere")
