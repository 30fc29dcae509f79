"""The training study of the demo."""

from pathlib import Path

from bon.experiment.config import DatasetSpec
from bon.miniature.data import write_table
from bon.training.uplift import Study

REWARDERS = (
    *("critic-c-blind", "critic-j", "critic-c", "critic-a-long", "pair-d", "list-e"),
    *("scalar-a", "scalar-g", "likelihood-a"),
)
STEPS = 12
"""Half of the default, to keep the demo short (docs/measurements/demo.md)."""


def demo_study(out: Path) -> Study:
    """Return DPO on what nine rewarders of a finished demo prefer, and write its questions."""
    path = write_table(out / "data", "uplift_questions")
    return Study(
        methods=("dpo",),
        policy="mini-policy-a",
        rewarders=tuple(f"mini-{name}" for name in REWARDERS),
        questions=DatasetSpec(benchmark="mmmu_pro", path=str(path.absolute()), name="evaluation"),
        steps=STEPS,
    )
