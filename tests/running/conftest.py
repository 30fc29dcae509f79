"""Runs made in this process: the same sources and workers as `bon run`, without Ray."""

import asyncio
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bon.dispatch.worker import Host
from bon.running.runner import compute, make_sources
from bon.running.start import start
from bon.running.tally import Tally
from bon.storage.store import Store
from bon.work.setup import prepare

Go = Callable[..., Path]


@pytest.fixture
def go(tmp_path: Path) -> Go:
    """Runs an experiment to its end, or the sampling only; returns its directory."""
    return go_in(tmp_path)


def go_in(base: Path) -> Go:
    """The same in any folder, which the experiment's paths start from."""

    def run(
        experiment: dict[str, Any], *, until: str = "", out: str = "run", **options: Any
    ) -> Path:
        setup = prepare(experiment, base)
        with Store(base / out) as store:
            start(setup, store, quiet=True, **options)
            tally, host = Tally(setup, store), Host(setup.specs())
            sources = [s for s in make_sources(setup, store) if until in ("", s.stage)]

            async def work() -> None:
                for source in sources:
                    while tasks := source.take(50):
                        reply = await host.run(source.model, tasks)
                        source.open -= len(tasks)
                        tally.file(source, reply)

            asyncio.run(work())
            if not until:
                compute(setup, store, quiet=True)
        return base / out

    return run


def change(directory: Path, sql: str, *parameters: Any) -> None:
    """Change a run's database behind its back."""
    with sqlite3.connect(directory / "run.sqlite") as db:
        db.execute(sql, parameters)
    db.close()
