"""The training study of the demo."""

from pathlib import Path

from bon.experiment.config import DatasetSpec
from bon.miniature.data import write_table
from bon.training.uplift import Study

REWARDERS = (
    *("critic-a-short", "critic-a-gray", "critic-a", "critic-a-long", "pair-a", "scalar-a"),
    *("critic-b", "scalar-b", "likelihood-a"),
)
STEPS = 12
"""Half of the default, to keep the demo short (docs/measurements/demo.md)."""


def demo_study(out: Path) -> Study:
    """Return DPO on what nine rewarders of a finished demo prefer, and write its questions."""
    path = write_table(out / "data", "uplift_questions")
    return Study(
        methods=("dpo",),
        rewarders=tuple(f"mini-{name}" for name in REWARDERS),
        questions=DatasetSpec(benchmark="mmmu_pro", path=str(path.absolute()), name="evaluation"),
        steps=STEPS,
    )
