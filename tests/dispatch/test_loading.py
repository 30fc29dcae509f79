"""A model that loads for longer than its items may take, and an item that hangs."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from bon.core.errors import ExitCode
from bon.storage.store import Store
from tests.conftest import echo_experiment, write_questions
from tests.dispatch.test_dead_engine import install_engine

PACKAGE = '''
    """An engine that takes its time to load, and hangs on the first try of one item."""
    import asyncio
    import time
    from pathlib import Path

    from bon.engines import EngineEntry
    from bon.engines.echo import EchoEngine
    from bon.engines.settings import EchoSettings

    ENTRY = EngineEntry(path="slow:SlowEngine", settings=EchoSettings)


    class SlowEngine(EchoEngine):
        name = "slow"

        def __init__(self, settings):
            Path(__file__).with_name("loads").open("a").write("x")
            time.sleep(6)
            super().__init__(settings)

        async def _receive(self, messages):
            hung = Path(__file__).with_name("hangs")
            if hung.exists():
                hung.unlink()
                await asyncio.sleep(600)
            return await super()._receive(messages)
'''


@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_loading_does_not_count_against_the_time_limit(tmp_path: Path) -> None:
    site = tmp_path / "site"
    install_engine(site, "slow", PACKAGE)
    (site / "hangs").touch()
    write_questions(tmp_path / "questions.jsonl", 4)
    experiment = echo_experiment() | {"pairs": [], "rewarders": []}
    experiment |= {"cluster": {"timeout_seconds": 2}, "analysis": {"bootstrap": 100}}
    experiment["policies"][0]["engine"] = "slow"
    (tmp_path / "e.yaml").write_text(yaml.safe_dump(experiment))
    done = subprocess.run(
        [sys.executable, "-m", "bon", "run", "e.yaml", "--out", "run"],
        cwd=tmp_path, env={"PYTHONPATH": str(site), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == ExitCode.COMPLETE, done.stderr
    assert len((site / "loads").read_text()) == 2  # ended for the item that hung alone
    with Store(tmp_path / "run", readonly=True) as store:
        assert store.count("candidates", "outcome != 'error'") == 4 * 4
