"""Models of text alone through vLLM: the numbers of transformers."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

found = find_spec("vllm")
if found is None or found.origin is None:  # a folder of that name is not the package
    pytest.skip("vllm is not installed: see tests/vllm/run.sh", allow_module_level=True)

from tiny_checkpoint import image  # noqa: E402
from tiny_text_models import make_text_model  # noqa: E402

from bon.core.errors import BonError  # noqa: E402
from bon.core.sampling import Sampling  # noqa: E402
from bon.engines import build  # noqa: E402
from bon.engines.base import GenerateRequest, Message, ScoreRequest  # noqa: E402

pytestmark = [pytest.mark.model, pytest.mark.slow, pytest.mark.timeout(1200)]

REQUESTS = [
    ScoreRequest((Message("user", (f"Question {k}?",)), Message("assistant", (answer,))))
    for k in range(3)
    for answer in ("A.", "The answer is B. blue square.")
]
HEADS = {"num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 32}
"""vLLM's attention on a CPU needs heads of at least 32."""
WITH_IMAGE = ScoreRequest((Message("user", (image(0), "?")), Message("assistant", ("A",))))


@pytest.fixture
def both(session: Any, flags: dict[str, Any]) -> Any:
    """Loads a checkpoint with both engines."""
    made: list[Any] = []

    def load(folder: Path, hf: dict[str, Any], vllm: dict[str, Any]) -> list[Any]:
        given = {"model": str(folder), "engine_args": flags, **vllm}
        made.extend([build("transformers", {"model": str(folder), **hf}), build("vllm", given)])
        return made

    yield load
    session.all(*(engine.close() for engine in made))


@pytest.mark.parametrize(
    ("name", "labels"),
    [
        ("LlamaForSequenceClassification", 1),
        ("Qwen2ForTokenClassification", 2),
    ],
)
def test_rewards_are_equal(tmp_path: Path, session: Any, both: Any, name: str, labels: int) -> None:
    pad = not name.startswith("Llama")
    folder = make_text_model(tmp_path / "rm", name, num_labels=labels, pad=pad, **HEADS)
    output = labels - 1
    head = {"layers": ["auto"], "output": output}
    hf, vllm = both(folder, {"head": head}, {"task": "reward", "output": output})
    one, two = (session.all(*map(engine.reward, REQUESTS)) for engine in (hf, vllm))
    scores = [reward.score for reward in one]
    assert [reward.score for reward in two] == pytest.approx(scores, abs=1e-3)
    assert len(set(scores)) == len(scores)
    with pytest.raises(BonError, match="reads text alone"):
        session.run(vllm.reward(WITH_IMAGE))
    if labels > 1:
        vllm._settings = vllm._settings.model_copy(update={"output": None})
        with pytest.raises(BonError, match=r"gives 2 numbers, not one -> .*output: 0"):
            session.run(vllm.reward(REQUESTS[0]))


def test_texts_and_likelihoods_are_equal(tmp_path: Path, session: Any, both: Any) -> None:
    hf, vllm = both(make_text_model(tmp_path / "lm", **HEADS), {}, {})
    greedy = Sampling(temperature=0, max_tokens=8)
    asked = [GenerateRequest(request.messages[:1], greedy, (1,)) for request in REQUESTS[::2]]
    one, two = (session.all(*map(engine.generate, asked)) for engine in (hf, vllm))
    for theirs, ours in zip(one, two, strict=True):
        assert ours.num_prompt_tokens == theirs.num_prompt_tokens
        # vLLM leaves out a character whose last bytes were cut off.
        texts = [reply.samples[0].text.rstrip("\ufffd") for reply in (theirs, ours)]
        assert texts[0] == texts[1] != ""
    one, two = (session.all(*map(engine.likelihood, REQUESTS)) for engine in (hf, vllm))
    logprobs = [likelihood.logprob for likelihood in one]
    assert [likelihood.logprob for likelihood in two] == pytest.approx(logprobs, abs=1e-3)


def test_a_reward_model_is_not_asked_to_write(tmp_path: Path, flags: dict[str, Any]) -> None:
    folder = make_text_model(tmp_path / "rm", "Qwen2ForSequenceClassification", num_labels=1)
    with pytest.raises(BonError, match=r"writes no text -> kind: scalar .*task: reward"):
        build("vllm", {"model": str(folder), "engine_args": flags})
