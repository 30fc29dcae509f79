"""Images of questions: in the folder beside the page, or embedded."""

from __future__ import annotations

import base64
import hashlib
import shutil
from pathlib import Path
from typing import Literal

Images = Literal["none", "folder", "embed"]


class Pictures:
    """Deduplicated images by number; `addresses[number]` is the address in the page.

    `none` leaves images out, `embed` embeds them, `folder` writes them to `images/` in `folder`.
    """

    def __init__(self, folder: Path, images: Images) -> None:
        self.addresses: list[str] = []
        self._folder, self._images = folder, images
        self._numbers: dict[str, int] = {}
        if images != "none":  # of an earlier report
            shutil.rmtree(folder / "images", ignore_errors=True)

    @property
    def beside(self) -> bool:
        """Whether the images are in the folder."""
        return self._images == "folder" and bool(self.addresses)

    def add(self, image: str) -> int | None:
        """Return the number of an image (path or `data:` address); None if it is not shown."""
        content = None if self._images == "none" else _read(image)
        if content is None:
            return None
        data, kind = content
        digest = hashlib.sha256(data).hexdigest()[:24]
        if digest not in self._numbers:
            self._numbers[digest] = len(self.addresses)
            if self._images == "folder":
                self.addresses.append(self._write(digest, data, kind))
            else:
                encoded = base64.b64encode(data).decode()
                self.addresses.append(f"data:image/{kind};base64,{encoded}")
        return self._numbers[digest]

    def _write(self, digest: str, data: bytes, kind: str) -> str:
        suffix = {"jpeg": "jpg", "svg+xml": "svg"}.get(kind, kind)
        target = self._folder / "images" / f"{digest}.{suffix}"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
        return f"{self._folder.name}/images/{target.name}"


def _read(image: str) -> tuple[bytes, str] | None:
    """Return the bytes and kind (`png`, `jpeg`) of an image; None if it cannot be read."""
    if image.startswith("data:"):
        kind, _, body = image.partition(";base64,")
        return base64.b64decode(body), kind.rpartition("/")[2]
    path = Path(image)
    try:
        data = path.read_bytes()
    except OSError:
        return None
    suffix = path.suffix.lower().removeprefix(".") or "png"
    return data, {"jpg": "jpeg", "svg": "svg+xml"}.get(suffix, suffix)
