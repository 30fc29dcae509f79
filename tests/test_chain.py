"""The chain without a model: run, continue, extend, fail, be killed."""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import yaml

from bon.core.errors import BonError
from bon.dispatch import cluster
from bon.running.runner import compute
from bon.running.start import start
from bon.storage.store import Store
from bon.work.setup import prepare
from tests.processes import raylet_of

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("one_ray")]


def go(experiment, tmp_path, out="run", **start_options):
    """All of a run but the report; returns what its tables hold."""
    setup = prepare(experiment, tmp_path)
    with Store(tmp_path / out) as store:
        start(setup, store, quiet=True, **start_options)
        compute(setup, store, quiet=True)
    return contents(tmp_path / out)


def contents(directory: Path):
    """Every row of the two tables but what depends on the clock."""
    with Store(directory, readonly=True) as store:
        candidates = store.query(
            "SELECT key, question, policy, text, answer, outcome, seed, logprob "
            "FROM candidates ORDER BY key"
        )
        judgements = store.query(
            "SELECT key, rewarder, item, first, second, vote, outcome, score, text "
            "FROM judgements ORDER BY key"
        )
        return {"candidates": candidates, "judgements": judgements, "failed": store.meta("failed")}


def test_a_run_is_complete_and_the_same_every_time(make_experiment, tmp_path):
    experiment = make_experiment()
    one = go(experiment, tmp_path, "one")
    two = go({**experiment, "cluster": {"batch": 3, "in_flight": 1}}, tmp_path, "two")
    assert one == two
    assert len(one["candidates"]) == 12 * 4
    assert {row[1] for row in one["judgements"]} == {"judge", "critic", "head"}
    pairs = [row for row in one["judgements"] if row[1] == "judge" and row[4] is not None]
    assert len({(row[2], frozenset(row[3:5])) for row in pairs}) * 2 == len(pairs)


def test_identical_texts_are_judged_once(make_experiment, tmp_path):
    experiment = make_experiment(questions=60, judging={"skip": "unanimous"})
    rows = go(experiment, tmp_path)
    texts: dict[str, set[str]] = {}
    answers: dict[str, set[str]] = {}
    for _, question, _, text, answer, *_ in rows["candidates"]:
        texts.setdefault(question, set()).add(text)
        answers.setdefault(question, set()).add(answer)
    judged = [row for row in rows["judgements"] if row[1] == "critic" and row[2] in texts]
    wanted = {question: len(texts[question]) for question in texts if len(answers[question]) > 1}
    counts: dict[str, int] = {}
    for row in judged:
        counts[row[2]] = counts.get(row[2], 0) + 1
    assert counts == wanted
    assert 0 < len(wanted) < len(texts)
    everything = go({**experiment, "judging": {"skip": "nothing"}}, tmp_path)
    critic = {row[2] for row in everything["judgements"] if row[1] == "critic"}
    assert set(texts) <= critic


def test_running_again_computes_nothing_and_extending_only_what_is_new(make_experiment, tmp_path):
    experiment = make_experiment()
    before = go(experiment, tmp_path)
    stamp = (tmp_path / "run" / "run.sqlite").stat().st_mtime
    assert go(experiment, tmp_path) == before

    larger = yaml.safe_load(yaml.safe_dump(experiment))
    larger["policies"][0]["n"] = 6
    after = go(larger, tmp_path)
    assert set(before["candidates"]) < set(after["candidates"])
    assert set(before["judgements"]) < set(after["judgements"])
    assert go(experiment, tmp_path) == after
    assert stamp <= (tmp_path / "run" / "run.sqlite").stat().st_mtime

    # One rewarder's change leaves the others alone.
    experiment["rewarders"][1]["engine_args"]["accuracy"] = 0.6
    changed = go(experiment, tmp_path)
    new = set(changed["judgements"]) - set(after["judgements"])
    assert {row[1] for row in new} == {"critic"}
    assert changed["candidates"] == after["candidates"]


def test_engines_are_closed_before_their_room_is_given_away(make_experiment, tmp_path, monkeypatch):
    """One room for the three: a second of closing each, in real processes that are then gone.

    What they make in turn is what they make together.
    """
    together = go(make_experiment(), tmp_path, "together")
    experiment = make_experiment()
    for place, model in enumerate([*experiment["policies"], *experiment["rewarders"]]):
        model["placement"] = {"cpus": 2 if place < 3 else 0}
    notes = tmp_path / "notes"
    notes.mkdir()

    class Noting(cluster.HostActor):  # of this function, so that it travels whole
        def note(self, what):
            with (notes / f"{time.time():.3f}-{what}-{os.getpid()}").open("w"):
                pass

        async def run(self, model, payloads):
            self.note(f"run-{model}")
            return await super().run(model, payloads)

        async def close(self):
            import asyncio

            self.note("closing")
            await asyncio.sleep(1)
            await super().close()
            assert not self._engines
            self.note("closed")

    # Not in the place of the name HostActor, by which its own methods are found in the processes.
    monkeypatch.setattr(
        cluster.ray,
        "remote",
        lambda remote=cluster.ray.remote, **options: lambda actor: remote(**options)(Noting),
    )
    assert go(experiment, tmp_path) == together
    told = sorted(note.name.split("-", 1) for note in notes.iterdir())
    said: dict[str, list[str]] = {}
    for _, note in told:
        what, _, pid = note.rpartition("-")
        said.setdefault(pid, []).append(what)
    assert len(said) >= 4  # one process each, or more where it waited for candidates
    assert all(one[-2:] == ["closing", "closed"] for one in said.values())
    end = time.monotonic() + 20
    while any(Path(f"/proc/{pid}").exists() for pid in said) and time.monotonic() < end:
        time.sleep(0.1)
    assert not any(Path(f"/proc/{pid}").exists() for pid in said)
    # Whoever needs the room works before the other has begun, or after it has let go.
    large = {pid: one for pid, one in said.items() if "run-head" not in one}
    order = [note.rpartition("-")[2] for _, note in told if note.rpartition("-")[2] in large]
    assert [pid for pid, before in zip(order[1:], order, strict=False) if pid != before] == list(
        dict.fromkeys(order)
    )[1:]


def test_items_that_fail_are_recorded_and_can_be_asked_again(make_experiment, tmp_path):
    experiment = make_experiment(cluster={"retries": 0, "max_error_share": 0.9})
    experiment["rewarders"][1]["engine_args"]["failure_rate"] = 0.3
    rows = go(experiment, tmp_path)
    errors = [row for row in rows["judgements"] if row[6] == "error"]
    assert errors
    assert {row[1] for row in errors} == {"critic"}
    assert go(experiment, tmp_path) == rows
    # The echo engine fails on the same requests every time, so they fail again.
    assert go(experiment, tmp_path, retry_errors=True) == rows


def test_flaky_items_are_asked_again_at_once(make_experiment, tmp_path):
    experiment = make_experiment()
    experiment["rewarders"][1]["engine_args"]["flaky_rate"] = 0.5
    rows = go(experiment, tmp_path)
    assert not [row for row in rows["judgements"] if row[6] == "error"]


def test_a_rewarder_that_fails_too_often_is_stopped(make_experiment, tmp_path):
    experiment = make_experiment(questions=60, cluster={"retries": 0, "batch": 8})
    experiment["rewarders"][1]["engine_args"]["failure_rate"] = 0.9
    rows = go(experiment, tmp_path)
    assert list(rows["failed"]) == ["critic"]
    assert "items failed" in rows["failed"]["critic"]
    kept = go(make_experiment(questions=60), tmp_path, "clean")
    mine = [row for row in rows["judgements"] if row[1] != "critic"]
    assert mine == [row for row in kept["judgements"] if row[1] != "critic"]


def test_a_rewarder_that_cannot_be_loaded_is_one_line(make_experiment, tmp_path):
    experiment = make_experiment()
    experiment["rewarders"][2] |= {
        "engine": "openai",
        "model": "m",
        "engine_args": {"base_url": "http://localhost:1/v1", "api_key_env": "NO_SUCH_VARIABLE"},
    }
    rows = go(experiment, tmp_path)
    assert list(rows["failed"]) == ["head"]
    assert "\n" not in rows["failed"]["head"]
    assert {row[1] for row in rows["judgements"]} == {"judge", "critic"}


def test_a_policy_that_fails_altogether_ends_the_run_with_its_reason(make_experiment, tmp_path):
    experiment = make_experiment(questions=4, cluster={"retries": 0})
    experiment["policies"][0]["engine_args"]["failure_rate"] = 1.0
    cause = r"no candidate was sampled: every item .* \(last: EchoError: echo was told to fail"
    with pytest.raises(BonError, match=cause):
        go(experiment, tmp_path)


def test_a_model_that_wants_too_much_says_so_early(make_experiment, tmp_path):
    experiment = make_experiment()
    for model in [*experiment["policies"], *experiment["rewarders"]]:
        model["placement"] = {"gpus": 8}
    with pytest.raises(BonError, match=r"needs 8 GPU per actor, and Ray has 0 -> set "):
        go(experiment, tmp_path)


def test_a_judge_makes_room_for_the_policy_it_waits_for(make_experiment, tmp_path):
    experiment = make_experiment(questions=6)
    small = {"engine": "echo", "prompt": "bare", "n": 4}
    slow = {"latency": 0.3}
    experiment["policies"] = [
        {**small, "name": "one", "engine_args": slow, "placement": {"cpus": 1}},
        {
            **small,
            "name": "two",
            "engine_args": {**slow, "accuracy": 0.4},
            "placement": {"cpus": 2},
        },
    ]
    experiment["rewarders"] = experiment["rewarders"][2:]
    experiment["rewarders"][0]["placement"] = {"cpus": 1}
    rows = go(experiment, tmp_path)
    assert {row[2] for row in rows["candidates"]} == {"one", "two"}
    assert rows["failed"] == {}


def test_a_worker_that_does_not_come_is_said_and_waited_for(
    make_experiment, tmp_path, monkeypatch, capsys
):
    import ray

    @ray.remote(num_cpus=2)
    class Hog:
        def here(self):
            return True

    hog = Hog.remote()  # of somebody else, on the same cluster
    ray.get(hog.here.remote())
    monkeypatch.setattr(cluster, "START_SECONDS", 0.5)
    threading.Timer(4, ray.kill, [hog]).start()
    setup = prepare(make_experiment(questions=4), tmp_path)
    with Store(tmp_path / "run") as store:
        start(setup, store)
        compute(setup, store)
    said = [line for line in capsys.readouterr().err.splitlines() if "not started a worker" in line]
    assert len(said) == 1
    assert said[0].startswith("critic, head, judge, policy: Ray has not started a worker for 1 sec")
    assert contents(tmp_path / "run")["failed"] == {}


BON = str(Path(sys.executable).with_name("bon"))


def command(*arguments: str, cwd: Path) -> subprocess.Popen[str]:
    """The installed command, joined to the module's Ray."""
    import ray

    environment = {**os.environ, "BON_RAY_ADDRESS": ray.get_runtime_context().gcs_address}
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [BON, *arguments], cwd=cwd, env=environment, text=True, stdout=pipe, stderr=pipe,
    )  # fmt: skip


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_a_run_and_keeps_what_is_committed(make_experiment, tmp_path, number, code):
    experiment = make_experiment(questions=200)
    for model in [*experiment["policies"], *experiment["rewarders"]]:
        model["engine_args"]["latency"] = 0.5
    (tmp_path / "e.yaml").write_text(yaml.safe_dump(experiment))
    process = command("run", "e.yaml", "--out", "run", "--quiet", cwd=tmp_path)
    while rows_in(tmp_path / "run") == 0:
        assert process.poll() is None
        time.sleep(0.1)
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == code, errors
    # No traceback, and none of the C++ stacks that Ray's own handler prints.
    assert errors.strip() == "bon: stopped; the same command resumes from here"
    assert rows_in(tmp_path / "run") > 0


CLOSES = """
from pathlib import Path
from bon.engines.echo import EchoEngine
from bon.rewarders.base import Rewarder, Verdict

async def close(self):
    (Path(__file__).parent / "closed").touch()

EchoEngine.close = close

class Steady(Rewarder):
    arity = "one"

    async def judge(self, item, shown, seeds):
        return [Verdict("scored", score=1.0)] * len(seeds)
"""


def test_engines_are_closed_when_their_work_is_done(make_experiment, tmp_path):
    experiment = make_experiment()
    (tmp_path / "steady.py").write_text(CLOSES)
    steady = {"name": "steady", "kind": "python", "python": "steady:Steady", "engine": "echo"}
    experiment["rewarders"] = [steady]
    go(experiment, tmp_path)
    assert (tmp_path / "closed").exists()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_workers_killed_again_and_again(make_experiment, tmp_path, one_ray):
    experiment = make_experiment(questions=60, cluster={"batch": 2})
    calm = go(experiment, tmp_path, "calm")
    for model in [*experiment["policies"], *experiment["rewarders"]]:
        model["engine_args"]["latency"] = 0.5
        model["placement"] = {"group": "all", "actors": 3, "cpus": 0.5}
    killer = subprocess.Popen(
        [sys.executable, "-c", KILL_WORKERS, str(raylet_of(one_ray).pid), "4"],
        stdout=subprocess.PIPE,
    )
    try:
        runs = 0
        while killer.poll() is None:  # as many runs as it takes
            runs += 1
            assert go(experiment, tmp_path, f"hunted{runs}") == calm
    finally:
        killer.kill()
    assert killer.communicate()[0].count(b"killed") == 4


DEADLY = """
import os
from bon.rewarders.base import Rewarder, Verdict

class Deadly(Rewarder):
    arity = "one"

    async def judge(self, item, shown, seeds):
        if "3 + 3" in item.prompt:
            os._exit(1)
        return [Verdict("scored", score=1.0)] * len(seeds)
"""


def test_an_item_that_kills_its_worker_is_left_undone(make_experiment, tmp_path, monkeypatch):
    """It is no error of the rewarder: the same command tries it again."""
    monkeypatch.setattr(cluster, "BLAME_AFTER", 2)
    experiment = make_experiment(judging={"skip": "nothing"})
    (tmp_path / "my_rewarder.py").write_text(DEADLY)  # a user's own class beside the experiment
    deadly = {"name": "deadly", "kind": "python", "python": "my_rewarder:Deadly", "engine": "echo"}
    experiment["rewarders"] = [deadly]
    rows = go(experiment, tmp_path)
    assert not [row for row in rows["judgements"] if row[6] == "error"]
    assert len({row[2] for row in rows["judgements"]}) == 12 + 9 - 1
    assert rows["failed"] == {}
    (tmp_path / "my_rewarder.py").write_text(DEADLY.replace("os._exit(1)", "pass"))
    rows = go(experiment, tmp_path)
    assert len({row[2] for row in rows["judgements"]}) == 12 + 9


SLOW = """
import os
import signal
import time
from pathlib import Path
from bon.rewarders.base import Rewarder, Verdict

class Slow(Rewarder):
    arity = "one"
    slept = False

    async def judge(self, item, shown, seeds):
        if "3 + 3" in item.prompt and not self.slept:
            self.slept = True
            freeze = Path(__file__).with_name("freeze")
            if freeze.exists():
                freeze.unlink()
                os.kill(os.getpid(), signal.SIGSTOP)
            time.sleep(6)  # its event loop with it
        return [Verdict("scored", score=1.0)] * len(seeds)
"""


def test_a_frozen_worker_is_replaced_and_a_slow_one_is_not(
    make_experiment, tmp_path, monkeypatch, capsys, one_ray
):
    monkeypatch.setattr(cluster, "PING_SECONDS", 0.2)
    monkeypatch.setattr(cluster, "FROZEN_SECONDS", 5.0)
    experiment = make_experiment(cluster={"batch": 4})
    (tmp_path / "slow_rewarder.py").write_text(SLOW)
    slow = {"name": "slow", "kind": "python", "python": "slow_rewarder:Slow", "engine": "echo"}
    experiment["rewarders"] = [slow]
    setup = prepare(experiment, tmp_path)

    def run(out):
        with Store(tmp_path / out) as store:
            start(setup, store, quiet=True)
            compute(setup, store)
        return contents(tmp_path / out), capsys.readouterr().err

    rows, lines = run("slow")
    assert "it is replaced" not in lines
    (tmp_path / "freeze").touch()
    frozen_rows, lines = run("frozen")
    assert not (tmp_path / "freeze").exists()
    assert frozen_rows == rows
    assert lines.count("has not answered for 5 seconds; it is replaced") == 1


KILL_WORKERS = """
import random, sys, time, psutil
raylet, wanted = psutil.Process(int(sys.argv[1])), int(sys.argv[2])
rng, done, seen = random.Random(0), 0, {}
while done < wanted:
    time.sleep(rng.uniform(0.1, 0.4))
    workers = []
    for process in raylet.children(recursive=True):
        try:
            if process.cmdline()[:1] and process.cmdline()[0].startswith("ray::Host"):
                # A second of life, or no work would ever be done.
                if time.time() - seen.setdefault(process, time.time()) > 1:
                    workers.append(process)
        except psutil.Error:
            pass
    if workers:
        try:
            rng.choice(workers).kill()
        except psutil.Error:
            continue
        done += 1
        print("killed", flush=True)
"""

RUN = """
import sys, yaml
from pathlib import Path
from bon.running.runner import compute
from bon.running.start import start
from bon.work.setup import prepare
from bon.storage.store import Store
base = Path(sys.argv[1])
setup = prepare(yaml.safe_load((base / "e.yaml").read_text()), base)
with Store(base / "hunted") as store:
    start(setup, store, quiet=True)
    compute(setup, store, quiet=True)
"""


def rows_in(directory: Path) -> int:
    """Committed rows, also of a run that has not begun."""
    if not (directory / "run.sqlite").exists():
        return 0
    try:
        with Store(directory, readonly=True) as store:
            return store.count("candidates") + store.count("judgements")
    except BonError:
        return 0


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_driver_killed_again_and_again(make_experiment, tmp_path):
    import ray

    experiment = make_experiment(questions=300, cluster={"batch": 2})
    calm = go(experiment, tmp_path, "calm")
    total = len(calm["candidates"]) + len(calm["judgements"])
    for model in [*experiment["policies"], *experiment["rewarders"]]:
        model["engine_args"]["latency"] = 0.1
    address = ray.get_runtime_context().gcs_address
    slow = {**experiment, "cluster": {"batch": 2, "in_flight": 2, "address": address}}
    (tmp_path / "e.yaml").write_text(yaml.safe_dump(slow))
    rng = random.Random(0)
    sizes = [0]
    for _ in range(4):
        driver = subprocess.Popen([sys.executable, "-c", RUN, str(tmp_path)])
        while rows_in(tmp_path / "hunted") <= sizes[-1]:  # it has come further than the last one
            assert driver.poll() is None, "the run ended before all kills were made"
            time.sleep(0.05)
        time.sleep(rng.uniform(0.0, 1.0))
        driver.send_signal(signal.SIGKILL)
        driver.wait()
        sizes.append(rows_in(tmp_path / "hunted"))
    assert sizes == sorted(sizes)
    assert sizes[-1] < total
    for model in [*experiment["policies"], *experiment["rewarders"]]:
        model["engine_args"]["latency"] = 0.0
    assert go(experiment, tmp_path, "hunted") == calm
