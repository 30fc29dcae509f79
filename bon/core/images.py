"""Images: kept once by content, opened whatever their format, filtered, encoded.

Every fault of a file (missing, truncated, too large, not an image) is one `ImageError` with
one line, so that a row with a bad image is recorded as such and the run goes on.
"""

import hashlib
import io
import os
import re
import tempfile
from functools import cache
from pathlib import Path

import numpy as np
from PIL import Image, ImageFilter, ImageOps, UnidentifiedImageError

from bon.core.records import ImageRef

MAX_PIXELS = 80_000_000
"""Above this an image is refused before it is decoded: 240 MB as RGB."""

_BAND = 1_000_000
"""Pixels of grey values that are worked on at once."""

# Never the formats that start another program (EPS: ghostscript) or read other files.
_FORMATS = ("PNG", "JPEG", "MPO", "GIF", "WEBP", "BMP", "TIFF", "PPM", "AVIF")

ImageSource = ImageRef | bytes | str | Path

IMAGE_MARK = re.compile(r"<image ([0-9a-f]{16})>")
"""Where an image stands within a text, by the first 16 digits of its SHA-256 (`image_mark`).

A mark means something only beside the images of its own record: text that looks like one names
none of them and stays text.
"""


def image_mark(sha256: str) -> str:
    """The mark of an image."""
    return f"<image {sha256[:16]}>"


class ImageError(ValueError):
    """One image cannot be used; the message is one line and names the image."""


class ImageStore:
    """A folder of image files named by the SHA-256 of their bytes, 256 subfolders."""

    def __init__(self, folder: str | Path) -> None:
        # Absolute: the path crosses to workers that run in another directory.
        self.folder = Path(folder).absolute()

    def path(self, sha256: str) -> Path:
        """Where the image with that hash lies, or would lie."""
        return self.folder / sha256[:2] / sha256

    def put(self, data: bytes) -> ImageRef:
        """Keep these bytes, unless they are there already."""
        sha256 = hashlib.sha256(data).hexdigest()
        path = self.path(sha256)
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            # Written aside and renamed, so that a killed run leaves no half image behind.
            handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".")
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(data)
                os.replace(temporary, path)
            except BaseException:
                Path(temporary).unlink(missing_ok=True)
                raise
        return ImageRef(sha256=sha256, path=str(path))

    def add(self, data: bytes) -> ImageRef:
        """Like `put`, after checking that the bytes are an image that can be opened."""
        if not self.path(hashlib.sha256(data).hexdigest()).exists():
            open_image(data)  # Only for a new one: a resumed run decodes nothing again.
        return self.put(data)


def open_image(source: ImageSource, max_pixels: int = MAX_PIXELS) -> Image.Image:
    """Open any common image as RGB: upright, first frame, transparency over white."""
    name, data = _read(source)
    try:
        image = Image.open(io.BytesIO(data), formats=_formats())
        width, height = image.size
        if width * height > max_pixels:
            raise ImageError(
                f"image {name} has {width} x {height} pixels, more than the limit of "
                f"{max_pixels:,}: raise max_pixels or shrink the file"
            )
        # A multi-frame file stands on its first frame when opened; load() decodes only that.
        image.load()
        return _rgb(ImageOps.exif_transpose(image))
    except ImageError:
        raise
    except Image.DecompressionBombError as error:
        raise ImageError(f"image {name} is too large to open safely: {_line(error)}") from None
    except UnidentifiedImageError:
        raise ImageError(f"image {name} is not in a known image format") from None
    except Exception as error:  # Decoders raise whatever a damaged file makes them raise.
        raise ImageError(f"image {name} cannot be decoded: {_line(error)}") from None


def apply_filter(image: Image.Image, name: str) -> Image.Image | None:
    """What a handicapped model sees: `none`, `drop` (no image at all), `gray`, `blur:R`."""
    kind, radius = parse_filter(name)
    if kind == "drop":
        return None
    if kind == "gray":
        return image.convert("L").convert("RGB")
    if kind == "blur":
        return image.filter(ImageFilter.GaussianBlur(radius=radius))
    return image


def parse_filter(name: str) -> tuple[str, float]:
    """Kind and radius of a filter, or ValueError: for checking a card before anything runs."""
    kind, _, argument = name.partition(":")
    if kind == "blur":
        try:
            radius = float(argument)
        except ValueError:
            radius = -1.0
        if 0 < radius < float("inf"):
            return "blur", radius
    elif kind in ("none", "drop", "gray") and kind == name:
        return kind, 0.0
    raise ValueError(f"unknown image filter {name!r}: use none, drop, gray or blur:R (R > 0)")


def downscale(image: Image.Image, max_pixels: int) -> Image.Image:
    """Shrink to at most that many pixels, keeping the shape; never enlarges."""
    width, height = image.size
    if width * height <= max_pixels:
        return image
    factor = (max_pixels / (width * height)) ** 0.5
    size = max(1, int(width * factor)), max(1, int(height * factor))
    return image.resize(size, Image.Resampling.LANCZOS)


def encode(image: Image.Image) -> bytes:
    """PNG bytes, made quickly rather than small: a model decodes them at once."""
    buffer = io.BytesIO()
    image.save(buffer, format="PNG", compress_level=1)
    return buffer.getvalue()


@cache
def _formats() -> tuple[str, ...]:
    Image.init()
    return tuple(name for name in _FORMATS if name in Image.OPEN)


def _read(source: ImageSource) -> tuple[str, bytes]:
    """A name for messages, and the bytes."""
    if isinstance(source, bytes):
        return f"sha256:{hashlib.sha256(source).hexdigest()[:12]}", source
    path = Path(source.path if isinstance(source, ImageRef) else source)
    try:
        return str(path), path.read_bytes()
    except FileNotFoundError:
        raise ImageError(f"image {path} is missing") from None
    except (OSError, ValueError) as error:  # ValueError: a null character in the path.
        raise ImageError(f"image {path} cannot be read: {_line(error)}") from None


def _rgb(image: Image.Image) -> Image.Image:
    if image.mode.startswith("I") or image.mode == "F":
        image = _eight_bits(image)
    if image.has_transparency_data:
        layer = image.convert("RGBA")
        white = Image.new("RGBA", layer.size, "white")
        image = Image.alpha_composite(white, layer)
    image = image.convert("RGB")
    image.info.clear()  # No profile or comment of the file reaches the encoded PNG.
    return image


def _eight_bits(image: Image.Image) -> Image.Image:
    """Scale 16-bit, 32-bit and float grey values, which Pillow would clip to white."""
    values = np.asarray(image)
    rows = max(1, _BAND // image.width)
    bands = [slice(at, at + rows) for at in range(0, image.height, rows)]  # a float is 8 bytes

    def band(place: slice) -> np.ndarray:
        return np.nan_to_num(values[place].astype(np.float64))

    top = max(float(band(place).max(initial=0.0)) for place in bands)
    divisor, factor = 1.0, 1.0
    if image.mode.startswith("I;16") or (image.mode == "I" and 255 < top <= 65535):
        divisor = 257.0
    elif image.mode == "F" and top <= 1:
        factor = 255.0
    elif top > 255:
        factor = 255 / top
    found = np.empty(values.shape, np.uint8)
    for place in bands:
        found[place] = np.clip(np.rint(band(place) / divisor * factor), 0, 255)
    return Image.fromarray(found)


def _line(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return text or type(error).__name__
