"""Hack tests of a run's rewarders: `bon stress RUN`.

The attacks are preference pairs in a store of their own, RUN/stress, judged on Ray by the run's
rewarders under their specs, resumable like any reward benchmark.
"""

from dataclasses import replace
from pathlib import Path

from bon.core.console import say
from bon.core.errors import BonError
from bon.core.images import ImageStore
from bon.core.ledger import LEDGER
from bon.dispatch.source import Source
from bon.running.attacks import (
    FOLDER,
    WORDS,
    attack_pairs,
    attacked_setup,
    make_targets,
)
from bon.running.reporting import open_run, report_run
from bon.running.runner import work_off
from bon.running.tally import Tally
from bon.storage.store import Store
from bon.work.sources import PairSource


def stress_run(directory: Path, questions: int, *, quiet: bool = False) -> Path:
    """Judge attacks on up to this many questions and return the path of the new report.

    Raises BonError without a run, a rewarder that can be called, or a correct candidate.
    """
    _judge(directory, questions, quiet=quiet)
    return report_run(directory, quiet=quiet)


def _judge(directory: Path, questions: int, *, quiet: bool) -> None:
    with Store(directory, readonly=True) as store:
        setup = open_run(store)
        rewarders = tuple(r for r in setup.rewarders if not r.card.imported)
        if not rewarders:
            raise BonError(f"{directory} has no rewarder to call", "name some in a run")
        targets = list(make_targets(setup, store, questions))
    if not targets:
        raise BonError(
            f"{directory} holds no right candidate of a question with options",
            "sample more candidates",
        )
    setup = attacked_setup(replace(setup, rewarders=rewarders))
    with Store(directory / FOLDER) as store:
        store.images = ImageStore(directory / "images")  # the run's own
        store.forget_errors()
        count = store.set_pairs(attack_pairs(targets))
        say(f"{len(targets)} questions, {count} pairs of an attack and a right answer", quiet=quiet)
        sources: list[Source] = [PairSource(setup, store, rewarder) for rewarder in rewarders]
        tally = Tally(setup, store, directory / LEDGER)
        work_off(setup, tally, sources, quiet=quiet)
        store.set_meta(engines=tally.engines, attacks=list(WORDS))
        for model, reason in tally.failed.items():
            say(f"failed: {model}: {reason}", quiet=quiet)
