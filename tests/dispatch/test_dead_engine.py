"""An engine's process that is killed during a run: the results are those of a whole run."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from bon.commands.main import app
from bon.core.errors import BonError, EngineDied, ExitCode, Incomplete, engine_died
from bon.dispatch import cluster
from bon.engines import ENGINES
from bon.storage.store import Store
from tests.conftest import echo_experiment, write_pairs, write_questions

PACKAGE = '''
    """An engine whose model is in a process of its own, as vLLM's EngineCore is."""
    import asyncio
    import os
    import subprocess
    import sys
    from pathlib import Path

    from bon.engines import EngineEntry
    from bon.engines.echo import EchoEngine
    from bon.engines.settings import EchoSettings

    ENTRY = EngineEntry(path="apart:ApartEngine", settings=EchoSettings)

    class ApartEngine(EchoEngine):
        name = "apart"

        def __init__(self, settings):
            super().__init__(settings)
            self._lock = asyncio.Lock()
            self._child = subprocess.Popen(
                ["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
            )
            self._answered = 0

        async def _receive(self, messages):
            received = await super()._receive(messages)
            async with self._lock:
                await asyncio.sleep(0.02)
                self._child.stdin.write(b"x")
                if not self._child.stdout.read(1):
                    raise EOFError("the engine's process has ended")
                self._answered += 1
                if self._answered == 5:  # amid its items
                    Path(__file__).with_name(f"child-{self._child.pid}").touch()
            return received
'''


def install_engine(site: Path, name: str, code: str) -> None:
    """A package whose ENTRY is an engine."""
    info = site / f"{name}-1.dist-info"
    info.mkdir(parents=True)
    (site / f"{name}.py").write_text(textwrap.dedent(code))
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
    (info / "entry_points.txt").write_text(f"[bon.engines]\n{name} = {name}:ENTRY\n")


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """A study whose models all run on that engine, which is installed beside it."""
    install_engine(tmp_path / "site", "apart", PACKAGE)
    write_questions(tmp_path / "questions.jsonl", 40)
    write_pairs(tmp_path / "pairs.jsonl", 20)
    experiment = echo_experiment() | {"analysis": {"bootstrap": 100}}
    for model in [*experiment["policies"], *experiment["rewarders"]]:
        model["engine"] = "apart"
    path = tmp_path / "study.yaml"
    path.write_text(yaml.safe_dump(experiment))
    return path


def started(study: Path, out: str) -> "subprocess.Popen[str]":
    """`bon run`, as a user starts it."""
    command = [sys.executable, "-m", "bon", "run", str(study), "--out", str(study.parent / out)]
    return subprocess.Popen(
        command,
        env={**os.environ, "PYTHONPATH": str(study.parent / "site")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def rows(directory: Path) -> list[list[tuple]]:
    with Store(directory, readonly=True) as store:
        return [
            store.query("SELECT key, text, answer, outcome FROM candidates ORDER BY key"),
            store.query("SELECT key, outcome, score, text FROM judgements ORDER BY key"),
        ]


@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.usefixtures("commands_on_one_ray")
def test_a_killed_engine_changes_no_result(study: Path) -> None:
    calm = started(study, "calm")
    assert calm.communicate()[0]
    assert calm.returncode == ExitCode.COMPLETE
    before = set((study.parent / "site").glob("child-*"))
    run = started(study, "hunted")
    killed = 0
    while run.poll() is None and killed < 6:
        for mark in set((study.parent / "site").glob("child-*")) - before:
            before.add(mark)
            os.kill(int(mark.name.partition("-")[2]), signal.SIGKILL)
            killed += 1
        time.sleep(0.05)
    output = run.communicate()[0]
    assert killed >= 3, output
    assert "; its worker is restarted" in output
    assert run.returncode == ExitCode.COMPLETE, output
    assert rows(study.parent / "hunted") == rows(study.parent / "calm")
    calm_results, hunted = (
        json.loads((study.parent / out / "results.json").read_text()) for out in ("calm", "hunted")
    )
    assert calm_results["best_of_n"] == hunted["best_of_n"]
    assert calm_results["policies"] == hunted["policies"]


@pytest.mark.long
@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_an_engine_that_dies_again_and_again_is_no_wrong_answer(
    study: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is stored, the last line says so, and the same command tries again."""
    site = study.parent / "site"
    monkeypatch.setattr(cluster, "HOPELESS_AT_FIRST", 2)  # each takes a worker's start
    monkeypatch.delitem(vars(ENGINES), "_installed", raising=False)
    monkeypatch.setitem(vars(ENGINES), "_added", {})
    monkeypatch.syspath_prepend(str(site))
    experiment = yaml.safe_load(study.read_text())
    alone = {"pairs": [], "rewarders": [], "policies": experiment["policies"]}
    study.write_text(yaml.safe_dump({**experiment, **alone}))
    whole = (site / "apart.py").read_text()
    (site / "apart.py").write_text(whole.replace('["cat"]', '["true"]'))  # it ends at once
    arguments = ["run", str(study), "--out", str(study.parent / "run")]
    refused = CliRunner().invoke(app, arguments)
    assert isinstance(refused.exception, Incomplete), refused.output
    assert "its workers died 2 times and nothing came back" in str(refused.exception)
    assert rows(study.parent / "run") == [[], []]
    (site / "apart.py").write_text(whole)
    again = CliRunner().invoke(app, arguments)
    assert again.exit_code == ExitCode.COMPLETE, again.output
    assert len(rows(study.parent / "run")[0]) == 40 * 4


@pytest.mark.parametrize(("error", "died"), [
    (ConnectionRefusedError("refused"), True),
    (BrokenPipeError("pipe"), True),
    (RuntimeError("CUDA error: an illegal memory access was encountered"), True),
    (EngineDied("gone"), True),
    (RuntimeError("the prompt is too long"), False),
    (ValueError("an image cannot be read"), False),
    (MemoryError("cuda:0 ran out of memory on a single sequence"), False),
    (FileNotFoundError("image.png"), False),
    (BonError("no key"), False),
])  # fmt: skip
def test_what_is_no_fault_of_an_item(error: Exception, died: bool) -> None:
    caused = RuntimeError("generate failed")
    caused.__cause__ = error
    assert (engine_died(error) is not None) == died
    assert (engine_died(caused) is not None) == died
