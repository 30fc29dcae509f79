"""Loading checkpoints: the processor, with or without torchvision, and errors with their fix.

Processors of models that also read video require torchvision, which must fit the installed torch
exactly, and SmolVLM's num2words. Nothing here reads video: without these the processor is loaded
without its video half, and images go through transformers' Pillow-based code.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from transformers import AutoProcessor, ProcessorMixin

from bon.core.errors import BonError
from bon.engines.hf.template_sandbox import confine_templates

TRUST_REMOTE_CODE = {
    "trust_remote_code": "set trust_remote_code: true if you trust the code of this checkpoint"
}
_VIDEO_PROCESSOR = "transformers.models.auto.video_processing_auto.AutoVideoProcessor"


def counts_pixels(processor: Any) -> bool:
    """Whether the image processor's size is a number of pixels, so that it can enforce a limit."""
    return "Qwen2VL" in type(getattr(processor, "image_processor", None)).__name__


def load_processor(model: str, **kwargs: Any) -> Any:
    """Load a processor, without its video half if that is what fails; confine its template."""
    confine_templates()
    try:
        return AutoProcessor.from_pretrained(model, **kwargs)
    except (ImportError, ValueError) as error:
        if not re.search("torchvision|num2words", str(error), re.IGNORECASE):
            raise
    name = "check_argument_for_proper_class"
    check = getattr(ProcessorMixin, name)

    def check_all_but_video(self: Any, name: str, argument: Any) -> Any:
        return None if name == "video_processor" else check(self, name, argument)

    nothing = SimpleNamespace(from_pretrained=lambda *_, **__: None)
    with (
        patch(_VIDEO_PROCESSOR, nothing),
        patch.object(ProcessorMixin, name, check_all_but_video),
        patch("transformers.models.smolvlm.processing_smolvlm.num2words", str),
    ):
        processor = AutoProcessor.from_pretrained(model, **kwargs)
    if getattr(processor, "video_processor", nothing) is None:  # SmolVLM's template asks for these
        processor.video_processor = SimpleNamespace(num_frames=None, fps=None, model_input_names=[])
    return processor


@contextmanager
def loading_errors(model: str, fixes: Mapping[str, str], default: str) -> Iterator[None]:
    """Turn any exception into a BonError: its first line, and the first fix whose pattern fits.

    Patterns are searched, without regard to case, in `ExceptionType: message`.
    """
    try:
        yield
    except BonError:
        raise
    except Exception as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        line = (lines[0] if lines else type(error).__name__)[:300]
        text = f"{type(error).__name__}: {error}"
        matches = (fix for pattern, fix in fixes.items() if re.search(pattern, text, re.IGNORECASE))
        raise BonError(f"model {model!r} failed to load: {line}", next(matches, default)) from error
