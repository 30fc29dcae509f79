"""MM-RLHF-Reward: a critique in words, then a score that reads it; in an environment of its own.

It runs on a fork of LLaVA with old packages, which its card gives to its workers
(`placement.runtime_env`). Written from the published evaluation script; see the card's `tested:`.
"""

import asyncio
import io
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import Any

from bon.core.errors import BonError
from bon.engines.base import ImagePart
from bon.rewarders.base import Item, Rewarder, Seeds, Shown, Verdict
from bon.rewarders.scalar import scored

CONVERSATION = "qwen_1_5"
_ONE_AT_A_TIME = threading.Lock()


@dataclass(frozen=True)
class Critic:
    """The loaded model."""

    tokenizer: Any
    model: Any
    image_processor: Any

    def critique(self, text: str, images: Any, sizes: Any, sampling: Any, seed: int) -> str:
        """Generate a critique of a response."""
        import torch

        torch.manual_seed(seed)
        ids = self.model.generate(
            self._ids(text, None),
            images=images,
            image_sizes=sizes,
            modalities=["image"],
            do_sample=sampling.temperature > 0,
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            num_beams=1,
            max_new_tokens=sampling.max_tokens,
            use_cache=True,
        )
        return str(self.tokenizer.batch_decode(ids, skip_special_tokens=True)[0]).strip()

    def score(self, text: str, critique: str, images: Any, sizes: Any) -> float:
        """Return the reward head's score after the critique."""
        ids = self._ids(text, critique)
        reward, _ = self.model(ids, images=images, image_sizes=sizes, rm_forward=True)
        return float(reward[0].item())

    def images(self, parts: Sequence[ImagePart]) -> tuple[Any, Any]:
        """Return images as the model takes them, and their sizes."""
        import torch
        from PIL import Image

        opened = [Image.open(io.BytesIO(part.data)).convert("RGB") for part in parts]
        tensors = _llava("mm_utils").process_images(opened, self.image_processor, self.model.config)
        # The published evaluation encodes base views alone: one per image, in one 4-D tensor.
        views = torch.stack([tensor if tensor.dim() == 3 else tensor[0] for tensor in tensors])
        return views.to(dtype=torch.float16, device="cuda"), [image.size for image in opened]

    def _ids(self, text: str, reply: str | None) -> Any:
        conversation = _llava("conversation").conv_templates[CONVERSATION].copy()
        conversation.append_message(conversation.roles[0], text)
        conversation.append_message(conversation.roles[1], reply)
        image_token = _llava("constants").IMAGE_TOKEN_INDEX
        ids = _llava("mm_utils").tokenizer_image_token(
            conversation.get_prompt(), self.tokenizer, image_token, return_tensors="pt"
        )
        return ids.unsqueeze(0).to("cuda")


class MmRlhfReward(Rewarder):
    """One critique and one unbounded score per seed. Template: `prompt`, `response`."""

    arity = "one"

    async def judge(self, item: Item, shown: Shown, seeds: Seeds) -> list[Verdict]:
        """Judge once per seed, or once in all with temperature 0."""
        (key,) = shown
        text = self.prompt.render(prompt=item.prompt, response=item.responses[key])
        images, greedy = self.images_apart(item), self.card.sampling.temperature == 0
        drawn = seeds[:1] if greedy else seeds
        verdicts = [await asyncio.to_thread(self._judge, text, images, seed) for seed in drawn]
        return verdicts * len(seeds) if greedy else verdicts

    def _judge(self, text: str, images: Sequence[ImagePart], seed: int) -> Verdict:
        settings = self.engine.info()
        with _ONE_AT_A_TIME:
            critic = load(settings["model"], settings["revision"])
            tensors, sizes = critic.images(images) if images else (None, None)
            prompt = text
            if images:
                text = text.replace("<image>", "").strip()
                prompt = "\n".join(["<image>"] * len(images) + [text])
            with _no_grad():
                critique = critic.critique(prompt, tensors, sizes, self.card.sampling, seed)
                score = critic.score(prompt, critique, tensors, sizes)
        return scored(score, text=critique)


@lru_cache(maxsize=1)
def load(model: str, revision: str | None) -> Critic:
    """Load the model once per worker."""
    try:
        import torch
        from huggingface_hub import snapshot_download

        builder = _llava("model.builder")
    except ImportError as error:
        fix = "keep placement.runtime_env of its card"
        raise BonError(f"MM-RLHF-Reward needs {error.name}", fix) from None
    if not torch.cuda.is_available():
        raise BonError("MM-RLHF-Reward needs a GPU", "set placement.gpus: 1")
    folder = snapshot_download(model, revision=revision)
    tokenizer, loaded, image_processor, _ = builder.load_pretrained_model(
        folder, None, "llava_qwen", device_map="auto", attn_implementation=None
    )
    return Critic(tokenizer, loaded.eval(), image_processor)


def _llava(name: str) -> Any:
    """Import a module of the fork, which is installed in the workers' environment alone."""
    return import_module(f"llava.{name}")


def _no_grad() -> Any:
    import torch

    return torch.inference_mode()
