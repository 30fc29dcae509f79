"""OpenRLHF: JSONL of messages for its reward-model and DPO training, which know no images.

Train with `--data.prompt_key prompt --data.apply_chat_template`.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from bon.core.errors import BonError
from bon.exports.beside import write_lines
from bon.exports.preferences import Contrast, Target, Training
from bon.running.saying import say


def write_openrlhf(rows: Iterable[Training], target: Target) -> list[Path]:
    """Pairs whose question is text alone; the others are left out, and their number is said."""
    if target.unpaired:
        raise BonError(
            "the openrlhf layout holds pairs", "use trl, llama-factory or ms-swift for --unpaired"
        )
    left_out = kept = 0

    def made() -> Iterator[dict[str, Any]]:
        nonlocal left_out, kept
        for one in rows:
            assert isinstance(one, Contrast)
            left_out += bool(one.posed.images)
            if not one.posed.images:
                kept += 1
                yield _row(one)

    path = write_lines(made(), target.folder / f"{target.stem}.jsonl")
    if left_out and not kept:
        path.unlink()
        raise BonError(
            "every pair has an image, and OpenRLHF trains on text alone",
            "use --format trl, llama-factory or ms-swift",
        )
    if left_out:
        say(f"{left_out} pairs with images are left out: OpenRLHF trains on text alone")
    return [path]


def _row(one: Contrast) -> dict[str, Any]:
    asked = [
        {"role": message.role, "content": "".join(map(str, message.parts))}
        for message in one.posed.messages
    ]
    chosen, rejected = (
        [{"role": "assistant", "content": text}] for text in (one.chosen, one.rejected)
    )
    return {"prompt": asked, "chosen": chosen, "rejected": rejected, "margin": one.margin}
