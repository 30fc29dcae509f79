"""InternLM-XComposer2.5-Reward through its own code, in an environment of its own.

Its checkpoint comes with Python code (`get_score`) that current transformers cannot run, so the
card gives its workers their own packages (`placement.runtime_env`) and this adapter loads the
model by itself. Written from the published interface; see `tested:` of the card.
"""

import asyncio
import math
import tempfile
import threading
from collections.abc import Sequence
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from bon.core.errors import BonError
from bon.engines.base import ImagePart
from bon.rewarders.base import Item, Rewarder, Verdict

_ONE_AT_A_TIME = threading.Lock()


class IxcReward(Rewarder):
    """One unbounded score; it reads the question and the response as a conversation.

    Options: `hd_num`, the most tiles that an image is cut into (the published evaluation takes
    9; with several images the model's own code takes 6).
    """

    arity = "one"

    async def judge(
        self, item: Item, shown: tuple[str, ...], seeds: tuple[int, ...]
    ) -> list[Verdict]:
        """Deterministic: the same score for every seed."""
        (response,) = shown
        chat = [
            {"role": "user", "content": item.prompt},
            {"role": "assistant", "content": item.responses[response]},
        ]
        score = await asyncio.to_thread(self._score, chat, self.images_apart(item))
        if not math.isfinite(score):
            raise ValueError(f"the model gave the score {score}")
        return [Verdict("scored", score=score)] * len(seeds)

    def _score(self, chat: list[dict[str, str]], images: Sequence[ImagePart]) -> float:
        settings = self.engine.info()
        hd_num = int(self.card.options.get("hd_num", 9))
        with _ONE_AT_A_TIME, tempfile.TemporaryDirectory() as folder:
            model = load(settings["model"], settings["revision"])
            # The model's code reads images from files.
            paths = [Path(folder) / f"{place}.png" for place in range(len(images))]
            for path, image in zip(paths, images, strict=True):
                path.write_bytes(image.data)
            return float(_call(model, chat, [str(path) for path in paths], hd_num))


@lru_cache(maxsize=1)
def load(model: str, revision: str | None) -> Any:
    """The model with its tokenizer on it, as its code wants it; one for the worker's life."""
    try:
        import torch
        import transformers
    except ImportError as error:
        raise BonError(f"IXC-2.5-Reward needs {error.name}", "see its card's runtime_env") from None
    if int(transformers.__version__.split(".")[0]) >= 5:
        raise BonError(
            f"IXC-2.5-Reward's code does not run with transformers {transformers.__version__}",
            "keep placement.runtime_env of its card, which pins an older one",
        )
    if not torch.cuda.is_available():
        raise BonError("IXC-2.5-Reward needs a GPU", "set placement.gpus: 1")
    if find_spec("flash_attn") is None:
        raise BonError(
            "IXC-2.5-Reward's code needs the package flash-attn",
            "on the workers: pip install flash-attn --no-build-isolation (docs/rewarders.md)",
        )
    shared = {"revision": revision, "trust_remote_code": True}
    found = transformers.AutoModelForCausalLM.from_pretrained(
        model, torch_dtype=torch.float16, **shared
    )
    found = found.cuda().eval()
    found.tokenizer = transformers.AutoTokenizer.from_pretrained(model, **shared)
    return found


def _call(model: Any, chat: list[dict[str, str]], paths: list[str], hd_num: int) -> Any:
    import torch

    with torch.inference_mode(), torch.autocast("cuda", dtype=torch.float16):
        return model.get_score(chat, paths, hd_num=hd_num)
