"""Ask engines the same of one checkpoint: greedy replies, and what it thinks of them."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

from bon.experiment.yamlfile import load_yaml
from bon.storage.store import Store

QUESTIONS = 20
ARGUMENTS: dict[str, dict[str, Any]] = {
    "transformers": {"dtype": "float32"},
    "vllm": {"engine_args": {"dtype": "float32", "enforce_eager": True, "max_model_len": 512}},
}


class Agreement(NamedTuple):
    """How far two engines agree: equal texts, and the largest difference of a log-probability."""

    texts: int
    equal: int
    scores: int
    largest: float


def bon_run(python: str, experiment: Path, out: Path) -> None:
    """Run or resume an experiment; end with its exit code where it fails."""
    command = [python, "-m", "bon", "run", str(experiment), "--out", str(out)]
    environment = {"HF_HUB_OFFLINE": "1", "VLLM_CPU_KVCACHE_SPACE": "1"}
    if code := subprocess.run(command, env=os.environ | environment).returncode:
        raise SystemExit(code)


def run(study: Path, engine: str, python: str, out: Path) -> None:
    """Let an engine answer the first questions of the study greedily and rate its replies."""
    whole = load_yaml(study.read_text("utf-8"))
    policy, likelihood = whole["policies"][0], whole["rewarders"][0]
    shared = {"engine": engine, "engine_args": ARGUMENTS[engine]}
    experiment = {
        "name": f"real-{engine}",
        "questions": [whole["questions"][0] | {"limit": QUESTIONS}],
        "policies": [policy | shared | {"n": 1, "sampling": {"temperature": 0, "max_tokens": 16}}],
        "rewarders": [likelihood | shared],
        "judging": {"skip": "nothing"},
    }
    file = study.with_name(f"{engine}.yaml")
    file.write_text(json.dumps(experiment), "utf-8")
    bon_run(python, file, out)


def agreement(first: Path, second: Path) -> Agreement:
    """Compare two runs, row by row."""
    (texts, scores), (others, their_scores) = _rows(first), _rows(second)
    differences = [abs(scores[key] - their_scores[key]) for key in scores.keys() & their_scores]
    equal = sum(texts[key] == others[key] for key in texts.keys() & others)
    return Agreement(len(texts), equal, len(differences), max(differences, default=0.0))


def _rows(run: Path) -> tuple[dict[str, str], dict[tuple[str, str], float]]:
    """Return the replies by question, and the scores by item and text."""
    with Store(run, readonly=True) as store:
        texts = dict(store.query("SELECT question, text FROM candidates"))
        scores = store.query("SELECT item, first, score FROM judgements")
    return texts, {(item, text): score for item, text, score in scores}
