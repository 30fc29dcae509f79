"""Arms trained elsewhere: data, script and settings for TRL, and checkpoints brought in."""

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import yaml

from bon.core.errors import BonError, some
from bon.core.files import staged
from bon.engines.hf import train_trl
from bon.engines.tuning import Method
from bon.experiment.cards import Loaded
from bon.experiment.config import PolicyCard
from bon.exports.layouts import write_trl
from bon.exports.preferences import Contrast, messages_of
from bon.training.arms import Arm, Choices

LORA = {"r": 16, "lora_alpha": 32, "lora_dropout": 0.0, "target_modules": "all-linear"}


def export_arms(
    arms: list[Arm], choices: Choices, policy: Loaded[PolicyCard], seeds: int, out: Path
) -> list[Path]:
    """Write one Parquet per arm (TRL's DPO columns), train_trl.py and arms.yaml."""
    settings: dict[str, Any] = {
        "model": str(policy.model_path),
        "seeds": seeds,
        "warmup": arms[0].tuning.warmup,
        "accumulate": 1,
        "lora": LORA,
        "methods": {
            arm.tuning.method: {
                name: getattr(arm.tuning, name) for name in ("steps", "batch", "rate", "beta")
            }
            for arm in arms
        },
        "arms": list(choices.by_arm),
    }
    with staged(out, replace=True) as folder:
        paths = [folder / "arms.yaml", folder / "train_trl.py"]
        paths[0].write_text(yaml.safe_dump(settings, sort_keys=False), encoding="utf-8")
        shutil.copyfile(str(train_trl.__file__), paths[1])
        images = any(question.images for question in choices.questions)
        for name in choices.by_arm:
            paths += write_trl(_rows(name, choices, policy), folder, name, images=images)
    return [out / path.name for path in paths]


def _rows(name: str, choices: Choices, policy: Loaded[PolicyCard]) -> Iterator[Contrast]:
    for question, row in zip(choices.questions, choices.by_arm[name], strict=True):
        messages = messages_of(question, policy)
        yield Contrast(
            question, policy.card.name, name, messages, row.chosen, row.rejected, 1.0, 0.0
        )


def added_arms(new: Mapping[str, Path], arms: list[Arm]) -> tuple[list[Arm], dict[str, Path]]:
    """Return the arms of checkpoints by ARM or ARM.METHOD.SEED, and their folders by label."""
    known = {arm.label: arm for arm in arms}
    by_name = {arm.name: arm for arm in reversed(arms)}
    checkpoints: dict[str, Path] = {}
    for name, checkpoint in new.items():
        label = by_name[name].label if name in by_name else name
        _arm(label, known, by_name)
        if (checkpoint / "adapter_config.json").is_file():
            raise BonError(f"{checkpoint} is an adapter", "merge it: merge_and_unload() of peft")
        if not (checkpoint / "config.json").is_file():
            raise BonError(f"{checkpoint} holds no config.json", "name a Hugging Face checkpoint")
        checkpoints[label] = checkpoint.resolve()
    return [_arm(label, known, by_name) for label in checkpoints], checkpoints


def _arm(label: str, known: Mapping[str, Arm], by_name: Mapping[str, Arm]) -> Arm:
    """Return the arm of a label; one of another method or seed was trained elsewhere alone."""
    if label in known:
        return known[label]
    name, method, seed = ["", "", *label.rsplit(".", 2)][-3:]
    if name not in by_name or not method or not seed.isdigit():
        raise BonError(f"no arm {label!r}", f"ARM or ARM.METHOD.SEED of {some(sorted(by_name))}")
    arm = by_name[name]
    return replace(arm, tuning=replace(arm.tuning, method=cast(Method, method), seed=int(seed)))
