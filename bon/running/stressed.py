"""The hack tests that a run holds: its experiment under attack, and their tables."""

from dataclasses import replace
from pathlib import Path

from bon.analysis.data.tables import Tables
from bon.experiment.config import PairsSpec
from bon.running.attacks import NAMES
from bon.running.database import DATABASE
from bon.running.frames import run_tables
from bon.running.setup import Setup
from bon.running.store import Store

FOLDER = "stress"
"""Of a run directory: the store of its hack tests."""


def under_attack(setup: Setup) -> Setup:
    """The run's experiment with every attack for a reward benchmark, and nothing to sample."""
    specs = tuple(PairsSpec(benchmark="preference", name=attack) for attack in NAMES)
    experiment = setup.experiment.model_copy(update={"pairs": specs})
    return replace(setup, experiment=experiment, policies=(), ensembles=())


def stress_tables(setup: Setup, directory: Path) -> Tables | None:
    """What the rewarders of a run said of attacks; None where `bon stress` never ran."""
    if not (directory / FOLDER / DATABASE).is_file():
        return None
    with Store(directory / FOLDER, readonly=True) as store:
        return run_tables(under_attack(setup), store)
