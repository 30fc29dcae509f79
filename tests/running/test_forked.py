"""Work shared with copies of this process."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from functools import partial

import pytest

from bon.core import forked
from bon.core.forked import shared

pytestmark = pytest.mark.usefixtures("nobody_left")

SLOW = 0.05


@pytest.fixture(autouse=True)
def _two_cores(monkeypatch):
    """As in a process of its own, whatever threads other tests have left in this one."""
    monkeypatch.setattr(forked, "cores", lambda: 2)


def who(place: int) -> tuple[int, int]:
    time.sleep(SLOW)
    return place, os.getpid()


def test_two_processes_do_all_works_once_and_in_order(tmp_path):
    def work(place: int) -> tuple[int, int]:
        with (tmp_path / f"{place}").open("a") as file:
            file.write("x")
        return who(place)

    with shared([partial(work, i) for i in range(12)]) as rest:
        found = rest()
    assert [place for place, _ in found] == list(range(12))
    assert len({pid for _, pid in found}) == 2
    assert [(tmp_path / f"{i}").read_text() for i in range(12)] == ["x"] * 12


def test_the_copy_begins_while_this_process_does_something_else():
    with shared([partial(who, i) for i in range(4)]) as rest:
        time.sleep(20 * SLOW)
        assert os.getpid() not in {pid for _, pid in rest()}


def test_errors_are_those_of_works_done_one_after_the_other():
    def work(place: int) -> int:
        time.sleep(SLOW / 5)
        if place in (5, 6, 9):
            raise ValueError(place)
        return place

    with pytest.raises(ValueError, match="5"), shared([partial(work, i) for i in range(12)]) as r:
        r()


@pytest.mark.parametrize("end", [lambda: os.kill(os.getpid(), signal.SIGKILL), lambda: None])
def test_what_a_copy_does_not_hand_over_is_done_here(end):
    """It was killed, or its results cannot be pickled."""
    parent = os.getpid()

    def work(place: int) -> object:
        time.sleep(SLOW / 5)
        return place if os.getpid() == parent else (end(), lambda: place)

    with shared([partial(work, i) for i in range(6)]) as rest:
        assert rest() == list(range(6))


def test_a_copy_that_hangs_is_given_up(monkeypatch):
    monkeypatch.setattr(forked, "PATIENCE", 0.2)
    parent = os.getpid()

    def work(place: int) -> int:
        time.sleep(SLOW if os.getpid() == parent else 600)
        return place

    with shared([partial(work, i) for i in range(4)]) as rest:
        assert rest() == list(range(4))


def test_no_copy_outlives_an_error_of_the_caller():
    with pytest.raises(KeyboardInterrupt), shared([partial(time.sleep, 600)] * 2):
        raise KeyboardInterrupt


def test_where_no_process_can_be_started_all_is_done_here(monkeypatch):
    def refuse() -> int:
        raise BlockingIOError

    monkeypatch.setattr(os, "fork", refuse)
    with shared([os.getpid] * 3) as rest:
        assert rest() == [os.getpid()] * 3


def test_a_process_with_threads_does_all_itself(monkeypatch):
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait)
    thread.start()
    monkeypatch.undo()
    try:
        assert forked.cores() == 1
        with shared([os.getpid] * 3) as rest:
            assert rest() == [os.getpid()] * 3
    finally:
        stop.set()
        thread.join()


PROGRAM = textwrap.dedent(
    """
    import os, sys, time
    import numpy as np
    import pandas  # and with it Arrow
    from bon.analysis.estimators.parallel import each
    from bon.core.forked import cores, shared

    log = sys.argv[1]
    np.ones((800, 800)) @ np.ones((800, 800))
    assert cores() == len(os.sched_getaffinity(0)), os.listdir("/proc/self/task")
    os.sched_getaffinity = lambda _: {0, 1}

    def burn(_: int) -> int:
        until = time.thread_time() + .06
        while time.thread_time() < until:
            pass
        return os.getpid()

    assert len(set(each(burn, range(12)))) == 2
    with shared([lambda: (os.getpid(), cores(), time.sleep(.05))] * 8) as rest:
        assert {free for pid, free, _ in rest() if pid != os.getpid()} == {1}  # it shares no more
    with shared([lambda: (open(log, "a").write("x"), time.sleep(.2))] * 100):
        while not os.path.getsize(log):
            time.sleep(.01)
        os.kill(os.getpid(), 9)
    """
)


@pytest.mark.parametrize("blas", ["1", "2"])
def test_a_killed_process_takes_its_copy_along_and_threads_of_libraries_do_not_matter(
    tmp_path, blas
):
    log = tmp_path / "log"
    log.touch()
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(log)],
        stderr=subprocess.PIPE,
        check=False,
        env={**os.environ, "OPENBLAS_NUM_THREADS": blas},
    )
    assert ended.returncode == -signal.SIGKILL, ended.stderr.decode()
    time.sleep(0.5)
    written = log.stat().st_size
    time.sleep(0.5)
    assert log.stat().st_size == written < 10
