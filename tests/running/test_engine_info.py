"""What an engine reports about itself travels without the engine's own classes."""

import pickle

from bon.dispatch.source import Source
from bon.dispatch.worker import Reply
from bon.engines.echo import EchoEngine
from bon.running.tally import Tally


class Version(str):
    """Like torch.__version__, whose class takes seconds to import."""


def test_engine_info_is_pickled_without_the_engines_own_classes(make_experiment, go, monkeypatch):
    replies: list[Reply] = []

    def keep(self: Tally, source: Source, reply: Reply) -> None:
        replies.append(reply)

    monkeypatch.setattr(EchoEngine, "info", lambda self: {"torch": Version("2.13.0"), "batch": 8})
    monkeypatch.setattr(Tally, "file", keep)
    go(make_experiment(), until="generate")
    engines = [reply.engine for reply in replies]
    assert engines
    assert all(engine == {"torch": "2.13.0", "batch": 8} for engine in engines)
    assert b"Version" not in pickle.dumps(engines)


def test_the_warning_of_an_engine_is_said_once_a_model(make_experiment, go, monkeypatch, capsys):
    monkeypatch.setattr(EchoEngine, "info", lambda self: {"warning": "is odd -> mend it"})
    go(make_experiment())
    lines = [line for line in capsys.readouterr().err.splitlines() if "is odd" in line]
    assert len(lines) == len(set(lines)) > 1
    assert all(line.endswith(": is odd -> mend it") for line in lines)
