"""Build the study of pretrained models and run it: `python -m tools.real [--share .1]`.

Its models lie in the packages of requirements.txt. A run that was interrupted goes on.
"""

import argparse
import shutil
import sys
from pathlib import Path

from tools.real import engines
from tools.real.checkpoints import checkpoint, reward_model
from tools.real.page import page
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
    """Build, run, compare engines and write what came out."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("build/real"))
    parser.add_argument("--share", type=float, default=1, help="of questions and pairs")
    parser.add_argument("--out", type=Path, default=Path("runs/real"))
    parser.add_argument("--vllm", type=Path, help="environment with vLLM, to compare engines")
    parser.add_argument("--page", type=Path, default=Path("build/real.md"))
    arguments = parser.parse_args()
    study, out = build(arguments.folder, arguments.share), arguments.out
    engines.bon_run(sys.executable, study, out)
    pythons = {"transformers": sys.executable}
    if arguments.vllm and (arguments.vllm / "ready").exists():  # tests/vllm/setup.sh made it
        pythons["vllm"] = str(arguments.vllm / "bin/python")
    runs = {name: out.with_name(f"{out.name}-{name}") for name in pythons}
    if len(runs) == 2:
        for name, python in pythons.items():
            engines.run(study, name, python, runs[name])
    arguments.page.write_text(page(out, runs), "utf-8")
    print(arguments.page)


if __name__ == "__main__":
    main()
