"""The end of a run, made by a copy of the process that has loaded what that takes."""

import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
import time

import pytest

from bon.core import aside as module
from bon.core import forked
from bon.core.aside import aside
from bon.core.processes import find
from bon.engines.echo import EchoEngine
from bon.running.ending import reports
from bon.running.runner import Tally
from bon.running.work import Source
from bon.running.worker import Reply

pytestmark = pytest.mark.usefixtures("nobody_left")

QUICK = {"bootstrap": 100}


@pytest.fixture(autouse=True)
def _two_cores(monkeypatch):
    """As in a process of its own, whatever threads other tests have left in this one."""
    monkeypatch.setattr(module, "cores", lambda: 2)


def who(said: str, *, more: int = 0) -> tuple[str, int, int]:
    return said, more, os.getpid()


def test_a_copy_loads_meanwhile_and_does_the_work_when_it_is_asked(tmp_path):
    loaded = tmp_path / "loaded"
    with aside(lambda: loaded.write_text(str(os.getpid())), who) as begin:
        while not (loaded.exists() and loaded.read_text()):
            time.sleep(0.01)
        said, more, pid = begin("hello", more=3)()
    assert (said, more) == ("hello", 3)
    assert str(pid) == loaded.read_text() != str(os.getpid())
    with pytest.raises(ChildProcessError):  # not even what an ended process leaves
        os.waitpid(pid, os.WNOHANG)


def test_it_need_not_be_asked_and_does_not_outlive_an_error():
    with pytest.raises(KeyboardInterrupt), aside(lambda: time.sleep(600), who):
        raise KeyboardInterrupt


def test_its_errors_are_raised_here():
    def work() -> None:
        raise ValueError(os.getpid())

    with pytest.raises(ValueError, match=f"^{os.getpid()}$"), aside(lambda: None, work) as begin:
        begin()()


@pytest.mark.parametrize("end", [lambda: os.kill(os.getpid(), signal.SIGKILL), lambda: None])
def test_what_it_does_not_hand_over_is_done_here(end):
    """It was killed, or its result cannot be pickled."""
    parent = os.getpid()

    def work() -> object:
        return "here" if os.getpid() == parent else (end(), lambda: None)

    with aside(lambda: None, work) as begin:
        assert begin()() == "here"


def test_half_of_what_it_hands_over_is_not_taken_for_all():
    parent = os.getpid()

    def work() -> bytes:
        if os.getpid() != parent:
            threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGKILL)).start()
        return bytes(1 << 20)  # more than a pipe holds: it waits to be read

    with aside(lambda: None, work) as begin:
        result = begin()
        time.sleep(0.5)
        assert result() == bytes(1 << 20)


def test_one_that_ended_before_it_was_asked_is_not_missed():
    parent = os.getpid()
    with aside(lambda: None if os.getpid() == parent else os._exit(1), os.getpid) as begin:
        time.sleep(0.1)
        assert begin()() == parent


@pytest.mark.parametrize("number", [1, 2])
def test_where_there_is_no_copy_a_thread_loads(monkeypatch, number):
    """There is one core, or no room for another process."""

    def refuse() -> int:
        raise BlockingIOError

    monkeypatch.setattr(module, "cores", lambda: number)
    monkeypatch.setattr(os, "fork", refuse)
    loaded: list[str] = []

    def load() -> None:
        time.sleep(0.1)
        loaded.append(threading.current_thread().name)

    with aside(load, os.getpid) as begin:
        assert begin()() == os.getpid()
    assert loaded == []
    with aside(load, os.getpid, or_thread=True) as begin:
        assert begin()() == os.getpid()
    assert loaded == ["bon-loading"]


PROGRAM = textwrap.dedent(
    """
    import os, signal, sys, time
    from bon.core.aside import aside

    def work():
        open(sys.argv[1], "w").write(str(os.getpid()))
        time.sleep(600 if sys.argv[2] == "kill" else .3)
        return os.getpid()

    def stop(*_):
        raise SystemExit(3)

    signal.signal(signal.SIGTERM, stop)
    with aside(lambda: None, work) as begin:
        print(begin()() != os.getpid())
    """
)


@pytest.mark.parametrize("how", ["kill", "interrupt"])
def test_it_ends_with_its_parent_and_a_ctrl_c_is_the_parents_to_hear(tmp_path, how):
    at_work = tmp_path / "pid"
    command = [sys.executable, "-c", PROGRAM, str(at_work), how]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    ) as driver:
        while not (at_work.exists() and at_work.read_text()):
            time.sleep(0.02)
        pid = int(at_work.read_text())
        if how == "kill":
            driver.kill()
        else:
            os.kill(pid, signal.SIGINT)
        said, failed = driver.communicate(timeout=20)
    assert said.decode().strip() == ("" if how == "kill" else "True"), failed.decode()
    end = time.monotonic() + 5
    while find(pid) is not None and time.monotonic() < end:
        time.sleep(0.02)
    assert find(pid) is None


def test_a_run_is_reported_by_the_copy_and_said_here(make_experiment, go, capsys, monkeypatch):
    directory = go(make_experiment(analysis=QUICK))
    with reports() as make:
        monkeypatch.setattr("bon.running.reporting.make_report", None)  # here none can be made
        page = make(directory).tell(quiet=False)
    assert page == directory / "report.html"
    assert page.is_file()
    *_, last = capsys.readouterr().err.splitlines()
    assert last == f"report: {page}"


def test_copies_that_the_copy_made_end_with_it(tmp_path, monkeypatch):
    """Also one that hands over more than a pipe holds, to nobody."""
    monkeypatch.setattr(forked, "cores", lambda: 2)
    parent, theirs = os.getpid(), tmp_path / "pid"

    def large() -> bytes:
        theirs.write_text(str(os.getpid()))
        return bytes(1 << 20)

    def work() -> None:
        assert os.getpid() != parent
        with forked.shared([large]):
            time.sleep(600)

    with aside(lambda: None, work) as begin:
        begin()
        while not (theirs.exists() and theirs.read_text()):
            time.sleep(0.01)
        pid = int(theirs.read_text())
        assert find(pid) is not None
    end = time.monotonic() + 5
    while find(pid) is not None and time.monotonic() < end:
        time.sleep(0.02)
    assert find(pid) is None


class Version(str):
    """As torch's own, which takes seconds to import."""


def test_what_an_engine_says_of_itself_is_read_without_its_classes(
    make_experiment, go, monkeypatch
):
    replies: list[Reply] = []

    def keep(self: Tally, source: Source, reply: Reply) -> None:
        replies.append(reply)

    monkeypatch.setattr(EchoEngine, "info", lambda self: {"torch": Version("2.13.0"), "batch": 8})
    monkeypatch.setattr(Tally, "file", keep)
    go(make_experiment(), until="generate")
    said = [reply.engine for reply in replies]
    assert said
    assert all(one == {"torch": "2.13.0", "batch": 8} for one in said)
    assert b"Version" not in pickle.dumps(said)
