"""The questions of `bon init`, and the file that it writes."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer
import yaml

from bon.benchmarks import BENCHMARKS
from bon.core.errors import BonError, suggestion
from bon.experiment.overrides import apply_overrides
from bon.work.catalogue import find_card
from bon.work.setup import prepare

QUESTIONS = {
    "--policy": ("Policy (bon list policies)", "qwen2.5-vl-7b"),
    "--rewarder": ("Rewarders, with commas (bon list rewarders)", "qwen2.5-vl-7b-judge, r1-reward"),
    "--questions": ("Questions, NAME or NAME=FILE (bon list benchmarks)", "mmmu_pro"),
    "--pairs": ("Reward benchmark, NAME or NAME=FILE", "vl_rewardbench"),
}
COMMENTS = {
    "name": "also names the run's directory, runs/NAME",
    "questions": "the downstream task; limit: the first questions only, leave it out for all",
    "policies": "n: responses to each question",
    "pairs": "the reward benchmark; several are a list",
    "rewarders": "a verdict needs eight or more, of five or more base models, weak and strong",
}


def ask(base: Path, *given: list[str] | None) -> list[list[str]]:
    """Return the words of each option, and ask for those that are missing."""
    missing = [option for option, words in zip(QUESTIONS, given, strict=True) if not words]
    if missing and not sys.stdin.isatty():
        fix = "give them, or start bon init in a terminal"
        raise BonError(f"{', '.join(missing)} missing, and no terminal to ask in", fix)
    return [
        words or typer.prompt(*QUESTIONS[option], value_proc=_names(option, base))
        for option, words in zip(QUESTIONS, given, strict=True)
    ]


def _names(option: str, base: Path) -> Callable[[str], list[str]]:
    """Return a function that splits an answer at commas; typer asks again for an unknown name."""

    def split(answer: str) -> list[str]:
        words = [word.strip() for word in answer.split(",") if word.strip()]
        try:
            for word in words:
                if option in ("--policy", "--rewarder"):
                    find_card(word, base)
                elif (name := word.partition("=")[0]) not in BENCHMARKS:
                    raise BonError(f"no benchmark {name!r}", suggestion(name, BENCHMARKS))
        except BonError as error:
            raise typer.BadParameter(str(error)) from None
        return words

    return split


def commented(experiment: dict[str, Any], file: Path, limit: int) -> str:
    """Return an experiment as YAML with comments, checked as `bon plan` checks it."""
    experiment["questions"] = [{**task, "limit": limit} for task in experiment["questions"]]
    prepare(apply_overrides(experiment, []), file.parent, "bon init")
    text = f"# bon plan {file}, then bon run {file}. Every key: docs/experiment.md\n"
    for key, comment in COMMENTS.items():
        text += f"\n# {comment}\n{yaml.safe_dump({key: experiment[key]}, sort_keys=False)}"
    return text
