"""Rerankers: one raw score from vLLM in this process, from its server and from the weights."""

import json
import re
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

found = find_spec("vllm")
if found is None or found.origin is None:  # a folder of that name is not the package
    pytest.skip("vllm is not installed: see tests/vllm/run.sh", allow_module_level=True)

import tiny_architectures  # noqa: E402
from conftest import FLAGS, MAX_PIXELS, Server  # noqa: E402
from tiny_architectures import make_architecture  # noqa: E402
from tiny_checkpoint import image  # noqa: E402

from bon.engines import build  # noqa: E402
from bon.experiment.config import RewarderCard  # noqa: E402
from bon.experiment.prompts import Prompt  # noqa: E402
from bon.rewarders.base import Item  # noqa: E402
from bon.rewarders.scalar import Reranker  # noqa: E402

pytestmark = [pytest.mark.model, pytest.mark.slow, pytest.mark.timeout(1200)]

WORDS = ["<img>", "</img>"]  # "no" and "yes" of the real one: any two tokens of the vocabulary
OVERRIDES = {
    "architectures": ["Qwen3VLForSequenceClassification"],
    "classifier_from_token": WORDS,
    "is_original_qwen3_reranker": True,
}
LAYOUT = (
    "<|im_start|>system\nMeets it?<|im_end|>\n<|im_start|>user\n<Instruct>: {{ instruction }}"
    "<Query>:{{ query }}\n<Document>:{{ document }}<|im_end|>\n<|im_start|>assistant\n\n"
)
"""Jinja drops one line end at the end of a template."""
IMAGE = "<|vision_start|><|image_pad|><|vision_end|>"
ANSWERS = {"a": "A circle. Answer: A", "b": "Blue. Answer: B"}
INSTRUCTION = "Find the answer."


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    with pytest.MonkeyPatch.context() as patch:  # vLLM's CPU attention has no heads of 16
        patch.setitem(tiny_architectures.TEXT_CONFIG, "head_dim", 32)
        patch.setitem(tiny_architectures.MROPE["rope_parameters"], "mrope_section", [4, 6, 6])
        folder = make_architecture("qwen3_vl", tmp_path_factory.mktemp("reranker"))
    config = json.loads((folder / "config.json").read_text())
    config["text_config"]["tie_word_embeddings"] = config["tie_word_embeddings"] = False
    (folder / "config.json").write_text(json.dumps(config))
    return folder


@pytest.fixture(scope="module")
def engines(model: Path, session: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """One in this process and a server, whose template is written over messages."""
    folder = tmp_path_factory.mktemp("server")
    pick = "(messages | selectattr('role', 'eq', '{}') | map(attribute='content') | first)"
    template = re.sub(r"{{ (query|document) }}", lambda m: f"{{{{ {pick.format(m[1])} }}}}", LAYOUT)
    (folder / "rerank.jinja").write_text(template)
    server = Server(
        model, folder / "log", "--runner", "pooling", "--hf-overrides", json.dumps(OVERRIDES),
        "--chat-template", str(folder / "rerank.jinja"),
    )  # fmt: skip
    try:
        here = build(
            "vllm",
            {
                "model": str(model),
                "task": "reward",
                "max_pixels": MAX_PIXELS,
                "engine_args": {**FLAGS, "hf_overrides": OVERRIDES},
            },
        )
        there = build(
            "openai",
            {"base_url": server.url, "model": "tiny", "api_key_env": None, "endpoint": "vllm"},
        )
        yield here, there
        session.run(here.close())
        session.run(there.close())
    finally:
        server.stop()


def scores(session: Any, engine: Any, item: Item) -> list[tuple[float, int]]:
    card = RewarderCard.model_validate(
        {"name": "r", "kind": "rerank", "options": {"instruction": INSTRUCTION}}
    )
    rewarder = Reranker(card, Prompt("p", LAYOUT), engine)
    found = []
    for key in item.responses:
        first, again = session.run(rewarder.judge(item, (key,), (1, 2)))
        assert first == again
        assert first.outcome == "scored"
        found.append((first.score, first.num_prompt_tokens))
    return found


def by_hand(model: Path, item: Item) -> list[float]:
    """The last hidden state times the difference of the two words' rows."""
    import io

    import torch
    from PIL import Image
    from transformers import AutoProcessor, Qwen3VLForConditionalGeneration

    loaded = Qwen3VLForConditionalGeneration.from_pretrained(model).float().eval()
    processor = AutoProcessor.from_pretrained(model, max_pixels=MAX_PIXELS)
    no, yes = processor.tokenizer.convert_tokens_to_ids(WORDS)
    images = [Image.open(io.BytesIO(part.data)).convert("RGB") for part in item.images]
    made = []
    for answer in item.responses.values():
        query = IMAGE * len(images) + item.prompt
        text = Prompt("p", LAYOUT).render(instruction=INSTRUCTION, query=query, document=answer)
        inputs = processor(text=text, images=images or None, return_tensors="pt")
        with torch.no_grad():
            last = loaded.model(**inputs).last_hidden_state[0, -1]
            head = loaded.lm_head.weight
            made.append(float(last @ (head[yes] - head[no])))
    return made


@pytest.mark.long
@pytest.mark.parametrize("pictures", [0, 1, 3])
def test_scores_are_those_of_the_weights(
    session: Any, engines: Any, model: Path, pictures: int
) -> None:
    images = tuple(image(number) for number in range(pictures))
    item = Item("question", "i", "What is it? A. red B. blue", images, ANSWERS)
    here, there = (scores(session, engine, item) for engine in engines)
    assert [count for _, count in here] == [count for _, count in there]
    expected = by_hand(model, item)
    # With images, the vision towers of vLLM and transformers differ by a few hundredths here.
    slack = 0.1 if pictures else 1e-3
    for ours, served, theirs in zip(here, there, expected, strict=True):
        assert ours[0] == pytest.approx(served[0], abs=1e-3)
        assert ours[0] == pytest.approx(theirs, abs=slack)
    assert here[0][0] != pytest.approx(here[1][0], abs=1e-3)
