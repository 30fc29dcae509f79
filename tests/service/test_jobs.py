"""The queue's order and its moves between states."""

import subprocess
import time

import pytest

from bon.service.errors import ApiError
from bon.service.settings import Settings
from bon.service.validations.jobs import Jobs
from bon.service.validations.supervisor import Supervisor, _Child


@pytest.fixture
def jobs(tmp_path):
    database = Jobs(tmp_path / "service.sqlite")
    yield database
    database.close()


def add(jobs, owner, count=1):
    return [jobs.add("x", owner, {}).id for _ in range(count)]


def test_an_owner_with_many_does_not_hold_up_one_with_few(jobs):
    many, few = add(jobs, "ann", 4), add(jobs, "bob", 2)
    order = []
    while (chosen := jobs.next_queued()) is not None:
        jobs.start(chosen.id)
        jobs.finish(chosen.id, "done")
        order.append(chosen.id)
    assert order == [many[0], few[0], many[1], few[1], many[2], many[3]]


def test_only_what_has_ended_is_queued_again_or_deleted(jobs):
    (key,) = add(jobs, "ann")
    for move in (jobs.queue_again, jobs.delete):
        with pytest.raises(ApiError):
            move(key)
    jobs.start(key)
    assert jobs.start(key) is None
    assert jobs.cancel(key).state == "cancelling"
    jobs.crashed(key, counts=True)
    assert jobs.get(key).state == "cancelled"
    assert jobs.queue_again(key).state == "queued"
    assert jobs.start(key).attempt == 2
    jobs.finish(key, "done")
    jobs.delete(key)
    assert jobs.get(key) is None


def test_what_takes_longer_than_it_may_is_ended(jobs, tmp_path, monkeypatch):
    settings = Settings(data=tmp_path, limits={"hours": 0.5 / 3600})
    supervisor = Supervisor(settings, jobs)

    def launch(_):
        return _Child(subprocess.Popen(["sleep", "60"], start_new_session=True))

    monkeypatch.setattr(supervisor, "_launch", launch)
    (key,) = add(jobs, "ann")
    supervisor.start()
    deadline = time.monotonic() + 20
    while jobs.get(key).state != "failed":
        assert time.monotonic() < deadline
        time.sleep(0.05)
    supervisor.stop()
    assert "took longer than" in jobs.get(key).error
