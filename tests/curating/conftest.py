"""One finished run of two policies with images, echoed, for every test of what is made of it."""

from pathlib import Path

import pytest

from bon.miniature.data import write
from tests.conftest import echo_experiment
from tests.running.conftest import go_in


@pytest.fixture(scope="session")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run directory of 24 questions; nobody writes into it."""
    base = tmp_path_factory.mktemp("judged")
    write(base, num_questions=24, num_pairs=6)
    raw = echo_experiment()
    raw["questions"] = {"benchmark": "mmmu_pro", "path": "questions.parquet"}
    raw["pairs"] = [{"benchmark": "vl_rewardbench", "path": "pairs.parquet"}]
    policy = raw["policies"][0] | {
        "n": 6,
        "prompt": {"text": "{{ question }}\n{{ options }}\nSay Answer: LETTER."},
    }
    replies = {"policy": "Answer: {choice}", "talker": "So it is, I would say. Answer: {choice}"}
    raw["policies"] = [
        {**policy, "name": name, "engine_args": {"accuracy": 0.5, "reply": reply}}
        for name, reply in replies.items()
    ]
    judge, critic, head = raw["rewarders"]
    weak = {
        **critic,
        "name": "weak-critic",
        "engine_args": critic["engine_args"] | {"accuracy": 0.4},
    }
    lister = {
        **critic,
        "name": "lister",
        "kind": "listwise",
        "prompt": {"text": "{{ prompt }} {{ responses }}"},
        "score": {"pattern": r"Best: (\d+)"},
        "engine_args": {"accuracy": 0.7, "reply": "Best: {choice}"},
    }
    raw["rewarders"] = [judge, critic, weak, head, lister]
    raw["analysis"] = {"bootstrap": 100}
    return go_in(base)(raw)
