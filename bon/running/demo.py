"""The demo: the miniature's data and experiment."""

import shutil
from pathlib import Path

from bon.experiment.overrides import apply_overrides
from bon.experiment.yamlfile import read_yaml
from bon.miniature.data import write
from bon.work.setup import Setup, prepare

EXPERIMENT = Path(__file__).parents[1] / "miniature" / "experiment.yaml"


def demo_setup(out: Path, settings: list[str]) -> Setup:
    """Write the miniature's data into OUT/data and prepare its experiment.

    OUT/miniature.yaml is a copy of the experiment to start from.
    """
    data = out / "data"
    if not (data / "pairs.parquet").exists():
        write(data)
    shutil.copyfile(EXPERIMENT, out / "miniature.yaml")
    experiment = read_yaml(EXPERIMENT)
    if any(setting.startswith("rewarders=") for setting in settings):
        del experiment["judging"]["deep"]  # it names rewarders that may be gone
    return prepare(apply_overrides(experiment, settings), out, EXPERIMENT.name)
