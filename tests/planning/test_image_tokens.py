"""Tokens of an image are within 20% of what processors and vendors count."""

from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from bon.experiment.cards import load_policy, load_rewarder
from bon.experiment.config import PolicyCard
from bon.planning.dataset_sizes import TYPICAL, tokens_of


def card(name: str, **engine_args: Any) -> PolicyCard:
    return load_policy(name, Path()).card.model_copy(update={"engine_args": engine_args})


def qwen(width: int, height: int, unit: int, most: int) -> int:
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import smart_resize

    across, down = smart_resize(height, width, unit, 4 * unit * unit, most)
    return across // unit * (down // unit) + 2


def internvl(width: int, height: int) -> int:
    from transformers.models.got_ocr2.image_processing_pil_got_ocr2 import GotOcr2ImageProcessorPil

    tiles: Any = GotOcr2ImageProcessorPil(size={"height": 448, "width": 448})
    settings = {"crop_to_patches": True, "min_patches": 1, "max_patches": 12}
    return 256 * int(tiles.get_number_of_image_patches(height, width, settings)) + 2


def llava_onevision(width: int, height: int) -> int:
    from transformers.models.llava_onevision import processing_llava_onevision as llava
    from transformers.models.llava_onevision.image_processing_pil_llava_onevision import (
        LlavaOnevisionImageProcessorPil,
    )

    processor = llava.LlavaOnevisionProcessor.__new__(llava.LlavaOnevisionProcessor)
    processor.num_image_tokens, processor.vision_feature_select_strategy = 729, "full"
    processor.image_processor = LlavaOnevisionImageProcessorPil()
    processor.vision_aspect_ratio = "anyres_max_9"
    return int(processor._get_number_of_features(height, width, 384, 384))


def pixtral(width: int, height: int) -> int:
    shrink = max(1.0, width / 1024, height / 1024)
    across, down = (-(-int(side / shrink) // 16) for side in (width, height))
    return across * down + down


def claude(width: int, height: int) -> int:
    shrink = max(1.0, width / 1568, height / 1568)
    return min(1600, -int(-width * height / shrink**2 // 750))


def gpt_4o(width: int, height: int) -> int:
    shrink = max(1.0, width / 2048, height / 2048)
    shrink = max(shrink, min(width, height) / 768)
    return 85 + 170 * int(-(-width / shrink // 512)) * int(-(-height / shrink // 512))


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("qwen2.5-vl-7b", lambda w, h: qwen(w, h, 28, 12_845_056)),
        ("qwen3-vl-8b", lambda w, h: qwen(w, h, 32, 16_777_216)),
        ("internvl3-8b", internvl),
        ("llava-onevision-7b", llava_onevision),
        ("pixtral-12b", pixtral),
        ("claude-sonnet-4.6", claude),
        ("gpt-4o", gpt_4o),
    ],
)
def test_the_mean_image_is_counted_within_a_fifth(name: str, count: Any) -> None:
    pytest.importorskip("transformers")
    exact = fmean(count(*size) for size in TYPICAL)
    assert tokens_of(card(name)) == pytest.approx(exact, rel=0.2)


def test_max_pixels_of_a_card_counts() -> None:
    pytest.importorskip("transformers")
    exact = fmean(qwen(*size, 28, 300_000) for size in TYPICAL)
    assert tokens_of(card("qwen2.5-vl-7b", max_pixels=300_000)) == pytest.approx(exact, rel=0.2)


def test_a_card_that_does_not_tell_gets_what_is_assumed() -> None:
    here = Path(".")
    large, small = (load_policy(name, here).card for name in ("gpt-4o", "gpt-4o-mini"))
    assert tokens_of(large) == 466
    assert tokens_of(small) == 15527
    assert tokens_of(load_rewarder("internvl3-8b-judge", here).card) == 2255
    assert tokens_of(PolicyCard(name="mine", family="qwen2.5-vl")) == 1000
