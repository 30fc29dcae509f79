"""Runs made in this process: the same sources and workers as `bon run`, without Ray."""

import asyncio
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bon.dispatch.source import Source
from bon.dispatch.worker import Host, Payload
from bon.running.runner import compute, make_sources
from bon.running.start import start
from bon.running.tally import Tally
from bon.storage.store import Store
from bon.work.setup import Setup, prepare

Go = Callable[..., Path]


def work_here(
    setup: Setup, tally: Tally, sources: list[Source], size: int = 50
) -> list[tuple[Source, list[Payload]]]:
    """Do all work of these sources in this process; return every batch that was asked."""
    host, asked = Host(setup.specs()), []

    async def work() -> None:
        for source in sources:
            while tasks := source.take(size):
                asked.append((source, tasks))
                reply = await host.run(source.model, tasks)
                source.answer(len(tasks), reply.effort.busy)
                tally.file(source, reply)

    asyncio.run(work())
    return asked


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
            sources = [s for s in make_sources(setup, store) if until in ("", s.stage)]
            work_here(setup, Tally(setup, store), sources)
            if not until:
                compute(setup, store, quiet=True)
        return base / out

    return run


def change(directory: Path, sql: str, *parameters: Any) -> None:
    """Change a run's database behind its back."""
    with sqlite3.connect(directory / "run.sqlite") as db:
        db.execute(sql, parameters)
    db.close()
