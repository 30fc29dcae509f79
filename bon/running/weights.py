"""Checkpoints are fetched from the hub once, before the work of a run on this machine."""

import os
import re
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from bon.experiment.cards import Loaded
from bon.work.stored_models import on_hub

LINE_SECONDS = 10.0
_OTHER_FORMS = re.compile(r"(^|/)(original|onnx|openvino)/|\.(gguf|h5|msgpack|onnx|ot|tflite)$")
_TORCH_FORMS = re.compile(r"\.(bin|pt|pth)$")


def fetch_weights(models: Iterable[Loaded[Any]], report: Callable[[str], None]) -> None:
    """Download what is not here of the models' checkpoints, with a line on how far it is.

    What cannot be fetched is left to the loading of its model, which says why.
    """
    for model, revision in sorted(
        {(m.card.model, m.card.revision or "main") for m in models if on_hub(m)}
    ):
        try:
            files = _missing_files(model, revision)
        except Exception:  # no network, no such model, no access
            continue
        if files:
            _fetch(model, revision, files, report)


def weight_files(names: Iterable[str]) -> list[str]:
    """Return the files of a repository that engines load: one form of its weights, not all."""
    names = [name for name in names if not _OTHER_FORMS.search(name)]
    if any(name.endswith(".safetensors") for name in names):
        names = [name for name in names if not _TORCH_FORMS.search(name)]
    return names


def _missing_files(model: str, revision: str) -> dict[str, int]:
    """Return the bytes of each file that is to be downloaded."""
    from huggingface_hub import constants, try_to_load_from_cache

    if constants.HF_HUB_OFFLINE:
        return {}
    info = _api().model_info(model, revision=revision, files_metadata=True, timeout=LINE_SECONDS)
    sizes = {file.rfilename: file.size or 0 for file in info.siblings or ()}
    return {
        name: sizes[name]
        for name in weight_files(sizes)
        if not isinstance(try_to_load_from_cache(model, name, revision=revision), str)
    }


def _api() -> Any:
    from huggingface_hub import HfApi

    return HfApi(endpoint=os.environ.get("HF_ENDPOINT"))


def _fetch(model: str, revision: str, files: dict[str, int], report: Callable[[str], None]) -> None:
    from huggingface_hub import constants
    from huggingface_hub.file_download import repo_folder_name
    from huggingface_hub.utils import disable_progress_bars

    folder = Path(constants.HF_HUB_CACHE) / repo_folder_name(repo_id=model, repo_type="model")
    blobs, total, ended = folder / "blobs", sum(files.values()), threading.Event()
    before = _size(blobs)

    def download() -> None:
        try:
            _api().snapshot_download(model, revision=revision, allow_patterns=[*files])
        except Exception as error:  # loading tries again, and says why
            report(f"{model}: its download ended early: {type(error).__name__}")
        finally:
            ended.set()

    disable_progress_bars()  # lines take their place
    report(f"{model}: downloading {total / 1e9:,.1f} GB")
    threading.Thread(target=download, daemon=True).start()  # an interrupt does not wait for it
    while not ended.wait(LINE_SECONDS):
        report(f"{model}: {(_size(blobs) - before) / 1e9:,.1f} of {total / 1e9:,.1f} GB downloaded")


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.glob("*") if file.exists())
