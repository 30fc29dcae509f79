"""Build the study of pretrained models and run it: `python -m tools.real [--share .1]`."""

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

from tools.real.checkpoints import checkpoint, reward_model
from tools.real.questions import write_study

STUDY = Path(__file__).with_name("study.yaml")


def build(folder: Path, share: float = 1) -> Path:
    """Write models, data and experiment into `folder`; return the experiment's path."""
    folder.mkdir(parents=True, exist_ok=True)
    training = write_study(folder, share)
    base = checkpoint("smollm2", folder)
    checkpoint("gemma", folder)
    reward_model(base, folder, training)
    return Path(shutil.copy(STUDY, folder))


def main() -> None:
    """Build and run; further arguments go to `bon run`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("build/real"))
    parser.add_argument("--share", type=float, default=1, help="of questions and pairs")
    arguments, others = parser.parse_known_args()
    study = build(arguments.folder, arguments.share)
    command = [sys.executable, "-m", "bon", "run", str(study), *others]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    raise SystemExit(subprocess.run(command, env=environment).returncode)


if __name__ == "__main__":
    main()
