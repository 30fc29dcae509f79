"""Two versions of a judge: critic-a, and critic-a-long after 500 more steps of training."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from bon.miniature.data import checkpoint
from tools.miniature.annotators import labels
from tools.miniature.data import stored_pairs
from tools.miniature.world import critic_prompt, make, query


@pytest.fixture(scope="module")
def items() -> dict[str, tuple[Any, str]]:
    """150 benchmark questions, each with a right and a wrong response of a policy."""
    out = {}
    for pair in stored_pairs()[:150]:
        question = make(pair["seed"], "benchmark", pair["subject"])
        for side in ("right", "wrong"):
            out[f"{pair['seed']}-{side}"] = (question, pair[side])
    return out


def verdicts(name: str, items: dict[str, tuple[Any, str]], path: Path) -> None:
    """Write what a critic says of the items as the table that `bon calibrate` reads."""
    from transformers import AutoTokenizer

    from tools.miniature.batches import Encoder
    from tools.miniature.evaluate import replies
    from tools.miniature.model import load

    folder = checkpoint(name)
    encoder = Encoder(AutoTokenizer.from_pretrained(folder))
    prompts = [critic_prompt(query(question), text) for question, text in items.values()]
    scenes = [question.scenes for question, _ in items.values()]
    said = replies(load(folder), encoder, prompts, scenes)
    rows = [
        {"rewarder": "critic", "item": item, "verdict": int(text.endswith("Yes"))}
        for item, text in zip(items, said, strict=True)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.mark.model
def test_a_drifted_judge_is_told_from_itself_by_labels_with_errors(
    items: dict[str, tuple[Any, str]], tmp_path: Path
) -> None:
    from typer.testing import CliRunner

    from bon.commands.main import app

    verdicts("critic-a", items, tmp_path / "old.jsonl")
    verdicts("critic-a-long", items, tmp_path / "new.jsonl")
    rows = labels({item: item.endswith("right") for item in items}, error=0.1)
    with (tmp_path / "people.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)

    def compared(new: str, old: str) -> dict[str, Any]:
        command = ["calibrate", str(tmp_path / new), "--labels", str(tmp_path / "people.csv")]
        command += ["--against", str(tmp_path / old), "--json"]
        done = CliRunner().invoke(app, command)
        assert done.exit_code == 0, done.output
        return dict(json.loads(done.stdout))

    better = compared("new.jsonl", "old.jsonl")
    assert better["drift"][0]["accuracy"]["low"] > 0
    same = compared("new.jsonl", "new.jsonl")
    assert same["drift"][0]["changed"]["value"] == 0
    agreement = better["people"]["agreement"]["value"]
    assert agreement == pytest.approx(1 - 2 * 0.1 * 0.9, abs=0.05)
