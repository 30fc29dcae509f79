"""Hack tests of a run's rewarders: `bon stress RUN`.

The attacks are preference pairs in a store of their own, RUN/stress, and judged there as the
pairs of a reward benchmark are: on Ray, by the run's rewarders under their specs, resumable.
"""

from dataclasses import replace
from pathlib import Path

from bon.core.errors import BonError
from bon.core.images import ImageStore
from bon.running.attacks import WORDS, honest, pairs
from bon.running.ending import reports
from bon.running.reporting import open_run
from bon.running.runner import Tally, work_off
from bon.running.saying import say
from bon.running.store import Store
from bon.running.stressed import FOLDER, under_attack
from bon.running.work import CandidatePool, PairSource, Source


def stress_run(directory: Path, questions: int, *, quiet: bool = False) -> Path:
    """Judge attacks on up to so many questions, and report the run anew; returns the report.

    Raises:
        BonError: no run, no rewarder that can be asked, or no candidate that is right.
    """
    with reports() as make_report:
        _judge(directory, questions, quiet=quiet)
        return make_report(directory).tell(quiet=quiet)


def _judge(directory: Path, questions: int, *, quiet: bool) -> None:
    with Store(directory, readonly=True) as store:
        setup = open_run(store)
        asked = tuple(one for one in setup.rewarders if not one.card.brought)
        if not asked:
            raise BonError(f"{directory} has no rewarder that can be asked", "name some in a run")
        pools = [CandidatePool(store, policy) for policy in setup.policies]
        found = list(
            honest(
                list(store.questions()),
                lambda question: [row for pool in pools for row in pool.candidates(question)],
                questions,
            )
        )
    if not found:
        raise BonError(f"{directory} holds no candidate that is right", "sample more candidates")
    mine = under_attack(replace(setup, rewarders=asked))
    with Store(directory / FOLDER) as store:
        store.images = ImageStore(directory / "images")  # the run's own
        store.forget_errors()
        count = store.set_pairs(pairs(found))
        say(f"{len(found)} questions, {count} pairs of an attack and a right answer", quiet=quiet)
        sources: list[Source] = [
            PairSource(store, one, mine.protocol(one), mine.pair_votes(one)) for one in asked
        ]
        tally = Tally(mine, store)
        work_off(mine, tally, sources, quiet=quiet)
        store.set_meta(engines=tally.engines, attacks=list(WORDS))
        for model, reason in tally.failed.items():
            say(f"failed: {model}: {reason}", quiet=quiet)
