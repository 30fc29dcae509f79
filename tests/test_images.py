"""Images of every kind a dataset may hold, and the ways a file can be bad."""

import contextlib
import io
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from pydantic import ValidationError

from bon.core.images import (
    ImageError,
    ImageStore,
    apply_filter,
    downscale,
    encode,
    open_image,
)
from bon.core.records import ImageRef
from bon.experiment.config import RewarderCard

RED = (255, 0, 0)


def saved(image: Image.Image, kind: str, **options: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, format=kind, **options)  # type: ignore[arg-type]
    return buffer.getvalue()


def red_png() -> bytes:
    return saved(Image.new("RGB", (8, 6), RED), "PNG")


def test_store_keeps_equal_bytes_once(tmp_path: Path) -> None:
    store = ImageStore(tmp_path / "images")
    data = red_png()
    first, second = store.put(data), ImageStore(tmp_path / "images").put(data)
    assert first == second
    assert Path(first.path).read_bytes() == data
    assert Path(first.path).is_absolute()
    assert Path(first.path).parent.name == first.sha256[:2]
    files = [path for path in (tmp_path / "images").rglob("*") if path.is_file()]
    assert files == [store.path(first.sha256)]


def test_a_failed_write_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="No space"):
        ImageStore(tmp_path).put(red_png())
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_add_refuses_what_is_no_image(tmp_path: Path) -> None:
    store = ImageStore(tmp_path)
    with pytest.raises(ImageError, match="not in a known image format"):
        store.add(b"<html>404</html>")
    assert list(tmp_path.iterdir()) == []
    assert store.add(red_png()).sha256


def test_transparency_goes_over_white() -> None:
    image = Image.new("RGBA", (4, 4), (0, 0, 0, 0))
    image.putpixel((0, 0), (255, 0, 0, 255))
    opened = open_image(saved(image, "PNG"))
    assert opened.mode == "RGB"
    assert opened.getpixel((0, 0)) == RED
    assert opened.getpixel((3, 3)) == (255, 255, 255)


def test_palette_with_a_transparent_colour() -> None:
    image = Image.new("P", (4, 4), 1)
    image.putpalette([0, 0, 0, 255, 0, 0] + [0] * 762)
    image.putpixel((0, 0), 0)
    opened = open_image(saved(image, "PNG", transparency=0))
    assert opened.getpixel((0, 0)) == (255, 255, 255)
    assert opened.getpixel((1, 1)) == RED


@pytest.mark.parametrize("mode", ["1", "L", "LA", "CMYK", "YCbCr"])
def test_other_modes_become_rgb(mode: str) -> None:
    kind = {"CMYK": "JPEG", "YCbCr": "JPEG"}.get(mode, "PNG")
    opened = open_image(saved(Image.new("RGB", (8, 8), "white").convert(mode), kind))
    assert opened.mode == "RGB"
    assert min(opened.getpixel((4, 4))) > 250  # type: ignore[arg-type, type-var]


def test_sixteen_bits_keep_their_greys() -> None:
    ramp = np.linspace(0, 65535, 256).astype(np.uint16).reshape(16, 16)
    opened = np.asarray(open_image(saved(Image.fromarray(ramp), "PNG")))
    assert opened[..., 0].ravel().tolist() == list(range(256))


@pytest.mark.parametrize(
    ("values", "white"),
    [
        (np.array([[0.0, 1.0]], dtype=np.float32), 255),
        (np.array([[0.0, 200.0]], dtype=np.float32), 200),
        (np.array([[0, 65535]], dtype=np.int32), 255),
        (np.array([[0, 2_000_000]], dtype=np.int32), 255),
        (np.array([[0.0, np.nan]], dtype=np.float32), 0),
    ],
)
def test_float_and_long_greys(values: np.ndarray, white: int) -> None:  # type: ignore[type-arg]
    opened = open_image(saved(Image.fromarray(values), "TIFF"))
    assert [opened.getpixel((x, 0)) for x in (0, 1)] == [(0, 0, 0), (white, white, white)]


@pytest.mark.parametrize("kind", ["GIF", "WEBP", "PNG"])
def test_animations_give_their_first_frame(kind: str) -> None:
    frames = [Image.new("RGB", (6, 6), colour) for colour in ("red", "blue")]
    data = saved(frames[0], kind, save_all=True, append_images=frames[1:], lossless=True)
    assert open_image(data).getpixel((3, 3)) == RED


def test_exif_rotation_is_applied() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    assert open_image(saved(Image.new("RGB", (8, 4)), "JPEG", exif=exif)).size == (4, 8)


def test_too_large_is_refused_before_decoding() -> None:
    with pytest.raises(ImageError, match=r"8 x 6 pixels, more than the limit of 47"):
        open_image(red_png(), max_pixels=47)
    # 60,000 x 60,000 in a few bytes: a decompression bomb.
    bomb = b"P6 60000 60000 255\n"
    with pytest.raises(ImageError, match="too large to open safely"):
        open_image(bomb)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("share", [0, 0.003, 0.01, 0.5])
def test_truncated_files_are_one_line(share: float) -> None:
    noise = np.random.default_rng(0).integers(0, 255, (40, 40, 3), dtype=np.uint8)
    for kind in ("PNG", "JPEG", "GIF", "WEBP", "TIFF", "BMP"):
        data = saved(Image.fromarray(noise), kind)
        with pytest.raises(ImageError) as caught:
            open_image(data[: int(len(data) * share)])
        assert "\n" not in str(caught.value)


def test_every_damage_is_an_image_error() -> None:
    data = saved(Image.effect_noise((24, 24), 60), "PNG")
    generator = np.random.default_rng(1)
    for _ in range(150):
        damaged = bytearray(data)
        for place in generator.integers(0, len(data), 4):
            damaged[place] = generator.integers(0, 256)
        with contextlib.suppress(ImageError):  # Nothing else may come out.
            open_image(bytes(damaged))


def test_missing_and_unreadable_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(ImageError, match=r"gone\.png is missing"):
        open_image(ImageRef("0" * 64, str(tmp_path / "gone.png")))
    with pytest.raises(ImageError, match="cannot be read"):
        open_image(tmp_path)
    with pytest.raises(ImageError, match="cannot be read"):
        open_image("a\0b")
    # An EPS file would start another program.
    with pytest.raises(ImageError, match="known image format"):
        open_image(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 5 5\n")


def test_filters() -> None:
    noise = np.random.default_rng(0).integers(0, 255, (16, 16, 3), dtype=np.uint8)
    image = Image.fromarray(noise)
    assert apply_filter(image, "none") is image
    gray = apply_filter(image, "gray")
    assert gray.tobytes() == image.convert("L").convert("RGB").tobytes()
    blurred = apply_filter(image, "blur:2.5")
    assert np.asarray(blurred).std() < noise.std() / 2
    for spec in ("blur", "blur:x", "blur:inf", "grey", "drop:1", "", "none:"):
        with pytest.raises(ValidationError, match="should match pattern"):
            RewarderCard(name="critic", kind="scalar", image_filter=spec)


def test_downscale_keeps_the_shape_and_never_enlarges() -> None:
    image = Image.new("RGB", (400, 100))
    assert downscale(image, 10_000).size == (200, 50)
    assert downscale(image, 40_000) is image
    assert downscale(Image.new("RGB", (5000, 1)), 10).size == (223, 1)


def test_encoding_depends_on_the_pixels_alone() -> None:
    plain = Image.new("RGB", (8, 6), RED)
    tagged = saved(plain, "PNG", icc_profile=b"profile", dpi=(300, 300))
    assert encode(open_image(tagged)) == encode(plain)


def test_grey_values_of_many_bits_take_little_memory(tmp_path: Path) -> None:
    """A small file of floats must not take thirty bytes of memory for each of its pixels."""
    image = Image.new("F", (5000, 5000), 0.5)
    (tmp_path / "grey").write_bytes(saved(image, "TIFF", compression="tiff_adobe_deflate"))
    script = (
        "import resource, sys\nfrom bon.core.images import open_image\n"
        "peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024\n"
        "before = peak()\nopened = open_image(sys.argv[1])\n"
        "print(opened.getpixel((4999, 4999)), peak() - before)"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "grey")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    pixel, _, size = done.stdout.rpartition(" ")
    assert pixel == "(128, 128, 128)"
    assert int(size) < 14 * 5000 * 5000
