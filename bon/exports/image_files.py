"""Image files next to a table, named by their content."""

import io
from pathlib import Path

from PIL import Image, UnidentifiedImageError

from bon.engines.base import ImagePart

FOLDER = "images"
_SUFFIXES = {"JPEG": "jpg", "MPO": "jpg", "TIFF": "tif", "": "bin"}


def file_name(image: ImagePart) -> str:
    """Return the hash with the suffix of the image format."""
    try:
        kind = Image.open(io.BytesIO(image.data)).format or ""
    except (UnidentifiedImageError, OSError, Image.DecompressionBombError):
        kind = ""
    return f"{image.sha256}.{_SUFFIXES.get(kind, kind.lower())}"


class ImageFolder:
    """Writes images, each once, into the folder `images` next to a table."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / FOLDER
        self._names: dict[str, str] = {}

    def add(self, image: ImagePart) -> str:
        """Write an image and return its path relative to the table."""
        name = self._names.get(image.sha256)
        if name is None:
            name = self._names[image.sha256] = file_name(image)
            self.folder.mkdir(parents=True, exist_ok=True)
            (self.folder / name).write_bytes(image.data)
        return f"{FOLDER}/{name}"

    def paths(self) -> list[Path]:
        """Return the folder if it has any image."""
        return [self.folder] if self._names else []
