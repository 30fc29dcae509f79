"""InternLM-XComposer2.5-Reward through its checkpoint's own code, in an environment of its own.

Current transformers cannot run that code (`get_score`), so the card gives its workers their own
packages (`placement.runtime_env`). Written from the published interface; see the card's `tested:`.
"""

import asyncio
import tempfile
import threading
from collections.abc import Sequence
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from bon.core.errors import BonError
from bon.engines.base import ImagePart
from bon.rewarders.base import Item, Rewarder, Seeds, Shown, Verdict
from bon.rewarders.scalar import scored

_ONE_AT_A_TIME = threading.Lock()


class IxcReward(Rewarder):
    """One unbounded score per response, the same for every seed.

    Options: `hd_num`, the maximum number of tiles per image (9 in the published evaluation; with
    several images the model's own code takes 6).
    """

    arity = "one"

    async def judge(self, item: Item, shown: Shown, seeds: Seeds) -> list[Verdict]:
        """Score question and response as a conversation."""
        (key,) = shown
        chat = [
            {"role": "user", "content": item.prompt},
            {"role": "assistant", "content": item.responses[key]},
        ]
        score = await asyncio.to_thread(self._score, chat, self.images_apart(item))
        return [scored(score)] * len(seeds)

    def _score(self, chat: list[dict[str, str]], images: Sequence[ImagePart]) -> float:
        settings, paths = self.engine.info(), []
        with _ONE_AT_A_TIME, tempfile.TemporaryDirectory() as folder:
            model = load(settings["model"], settings["revision"])
            for index, image in enumerate(images):
                paths.append(f"{folder}/{index}.png")
                Path(paths[-1]).write_bytes(image.data)
            return float(_call(model, chat, paths, int(getattr(self.card.options, "hd_num", 9))))


@lru_cache(maxsize=1)
def load(model: str, revision: str | None) -> Any:
    """Load the model once per worker, with its tokenizer as an attribute, as its code expects."""
    try:
        import torch
        import transformers
    except ImportError as error:
        raise BonError(f"IXC-2.5-Reward needs {error.name}", "see its card's runtime_env") from None
    if int(transformers.__version__.split(".")[0]) >= 5:
        problem = f"IXC-2.5-Reward's code does not run with transformers {transformers.__version__}"
        raise BonError(problem, "keep placement.runtime_env of its card, which pins an older one")
    if not torch.cuda.is_available():
        raise BonError("IXC-2.5-Reward needs a GPU", "set placement.gpus: 1")
    if find_spec("flash_attn") is None:
        fix = "on the workers: pip install flash-attn --no-build-isolation (docs/rewarders.md)"
        raise BonError("IXC-2.5-Reward's code needs the package flash-attn", fix)
    source = {"revision": revision, "trust_remote_code": True}
    dtype = torch.float16
    loaded = transformers.AutoModelForCausalLM.from_pretrained(model, torch_dtype=dtype, **source)
    loaded = loaded.cuda().eval()
    loaded.tokenizer = transformers.AutoTokenizer.from_pretrained(model, **source)
    return loaded


def _call(model: Any, chat: list[dict[str, str]], paths: list[str], hd_num: int) -> Any:
    import torch

    with torch.inference_mode(), torch.autocast("cuda", dtype=torch.float16):
        return model.get_score(chat, paths, hd_num=hd_num)
