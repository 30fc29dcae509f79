"""Images: stored by content hash, decoded, filtered, encoded.

Every fault of a file (missing, truncated, too large, not an image) raises `ImageError`, so that
the row is recorded as bad and the run continues.
"""

import hashlib
import io
import math
import re
from functools import cache
from pathlib import Path

from PIL import Image, ImageFilter, ImageOps, UnidentifiedImageError

from bon.core.errors import one_line
from bon.core.files import write_atomic
from bon.core.records import ImageRef

MAX_PIXELS = 80_000_000
"""Larger images are refused before they are decoded (240 MB as RGB)."""

# No format that starts another program (EPS: ghostscript) or reads other files.
_FORMATS = ("PNG", "JPEG", "MPO", "GIF", "WEBP", "BMP", "TIFF", "PPM", "AVIF")

ImageSource = ImageRef | bytes | str | Path

IMAGE_MARK = re.compile(r"<image ([0-9a-f]{16})>")
"""An image within a text, by the first 16 digits of its SHA-256 (`image_mark`).

A mark that names no image of its own record is plain text.
"""


def image_mark(sha256: str) -> str:
    """Return the mark that stands for an image within a text."""
    return f"<image {sha256[:16]}>"


class ImageError(ValueError):
    """An unusable image; the one-line message names it."""


class ImageStore:
    """A folder of image files named by the SHA-256 of their bytes, in 256 subfolders."""

    def __init__(self, folder: str | Path) -> None:
        # Absolute, since workers run in another directory.
        self.folder = Path(folder).absolute()

    def path(self, sha256: str) -> Path:
        """Return the path for an image of that hash."""
        return self.folder / sha256[:2] / sha256

    def put(self, data: bytes) -> ImageRef:
        """Store bytes unless they are stored already."""
        sha256 = hashlib.sha256(data).hexdigest()
        path = self.path(sha256)
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(path, data)
        return ImageRef(sha256=sha256, path=str(path))

    def add(self, data: bytes) -> ImageRef:
        """Like `put`, after checking that the image can be decoded."""
        if not self.path(hashlib.sha256(data).hexdigest()).exists():
            open_image(data)  # a resumed run decodes nothing again
        return self.put(data)


def open_image(
    source: ImageSource,
    max_pixels: int = MAX_PIXELS,
    max_side: float = math.inf,
    max_ratio: float = math.inf,
) -> Image.Image:
    """Open an image as RGB: upright, first frame, transparency over white.

    Its pixels, its longer side and the ratio of its sides are checked before it is decoded.
    """
    name, data = _read(source)
    try:
        image = Image.open(io.BytesIO(data), formats=_formats())
        width, height = image.size
        if width * height > max_pixels:
            raise ImageError(
                f"image {name} has {width} x {height} pixels, more than the limit of "
                f"{max_pixels:,}: raise max_pixels or shrink the file"
            )
        if max(width, height) > max_side:
            raise ImageError(
                f"image {name} has {width} x {height} pixels, a side above {max_side:,}"
            )
        if max(width, height) > max_ratio * min(width, height):
            raise ImageError(
                f"image {name} is {width} x {height}: one side is more than {max_ratio:g} times "
                "the other"
            )
        image.load()  # the first frame only
        return _rgb(ImageOps.exif_transpose(image))
    except ImageError:
        raise
    except Image.DecompressionBombError as error:
        raise ImageError(f"image {name} is too large to open safely: {one_line(error)}") from None
    except UnidentifiedImageError:
        raise ImageError(f"image {name} is not in a known image format") from None
    except Exception as error:  # decoders raise anything on damaged files
        raise ImageError(f"image {name} cannot be decoded: {one_line(error)}") from None


def apply_filter(image: Image.Image, name: str) -> Image.Image:
    """Apply `none`, `gray` or `blur:R`, as a card names them."""
    kind, _, radius = name.partition(":")
    if kind == "gray":
        return image.convert("L").convert("RGB")
    if kind == "blur":
        return image.filter(ImageFilter.GaussianBlur(float(radius)))
    return image


def downscale(image: Image.Image, max_pixels: int) -> Image.Image:
    """Shrink to at most that many pixels, keeping the aspect ratio."""
    width, height = image.size
    if width * height <= max_pixels:
        return image
    factor = (max_pixels / (width * height)) ** 0.5
    size = max(1, int(width * factor)), max(1, int(height * factor))
    return image.resize(size, Image.Resampling.LANCZOS)


def encode(image: Image.Image) -> bytes:
    """Encode as PNG, quickly rather than small."""
    buffer = io.BytesIO()
    image.save(buffer, format="PNG", compress_level=1)
    return buffer.getvalue()


@cache
def _formats() -> tuple[str, ...]:
    Image.init()
    return tuple(name for name in _FORMATS if name in Image.OPEN)


def _read(source: ImageSource) -> tuple[str, bytes]:
    """Return a name for messages, and the bytes."""
    if isinstance(source, bytes):
        return f"sha256:{hashlib.sha256(source).hexdigest()[:12]}", source
    path = Path(source.path if isinstance(source, ImageRef) else source)
    try:
        return str(path), path.read_bytes()
    except FileNotFoundError:
        raise ImageError(f"image {path} is missing") from None
    except (OSError, ValueError) as error:  # ValueError: a null character in the path
        raise ImageError(f"image {path} cannot be read: {one_line(error)}") from None


def _rgb(image: Image.Image) -> Image.Image:
    if image.mode.startswith("I") or image.mode == "F":
        image = _eight_bits(image)
    if image.has_transparency_data:
        layer = image.convert("RGBA")
        white = Image.new("RGBA", layer.size, "white")
        image = Image.alpha_composite(white, layer)
    image = image.convert("RGB")
    image.info.clear()  # drop profiles and comments
    return image


def _eight_bits(image: Image.Image) -> Image.Image:
    """Scale 16-bit, 32-bit and float grey values, which Pillow clips to white."""
    grey = image.convert("I").convert("F") if image.mode.startswith("I") else image
    top = float(grey.getextrema()[1])  # type: ignore[arg-type]
    factor = 1.0
    if image.mode.startswith("I;16") or (image.mode == "I" and 255 < top <= 65535):
        factor = 1 / 257
    elif image.mode == "F" and top <= 1:
        factor = 255.0
    elif top > 255:
        factor = 255 / top
    return grey.point(lambda value: value * factor + 0.5).convert("L")
