"""One image file of any kind as an upright picture of 8 bits, grey or RGB."""

from __future__ import annotations

import io
from contextlib import suppress

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageOps, UnidentifiedImageError

from foible.data.quiet import quiet_pillow
from foible.errors import UserError
from foible.images import MOST_PIXELS
from foible.text import shown

Pixels = npt.NDArray[np.uint8]

MOST_BYTES = 512 << 20  # of one image file: more than MOST_PIXELS take in any format
FORMATS = ("PNG", "JPEG", "BMP", "GIF", "WEBP", "TIFF", "PPM")
SUFFIXES = frozenset(
    (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm", ".pbm", ".pnm")
)


def picture(body: bytes | None, mode: str | None = None, size: tuple[int, int] | None = None) -> Image.Image:
    """The image in a file's bytes: upright by its EXIF note, on white where transparent, L or RGB.

    mode: "L" or "RGB"; None for whichever it is by itself. size: (width, height) to crop and resize it to.
    Any exception is possible: the bytes may be anything; `reason` puts it in words.
    """
    for _ in range(8):
        # A warning raised is one of an odd note, while another thread swaps the filters of warnings: try again.
        with suppress(Warning), quiet_pillow():
            return _picture(body, mode, size)
    return _picture(body, mode, size)


def _picture(body: bytes | None, mode: str | None, size: tuple[int, int] | None) -> Image.Image:
    if not body:
        raise ValueError("holds no image bytes")
    image: Image.Image = Image.open(io.BytesIO(body), formats=FORMATS)
    width, height = image.size
    most = min(MOST_PIXELS, Image.MAX_IMAGE_PIXELS or MOST_PIXELS)
    if width * height > most:
        raise ValueError(f"claims {width}×{height} pixels, more than the limit of {most:,}")
    image.load()
    image = _plain(_upright(image))
    if mode is not None and image.mode != mode:
        image = image.convert(mode)
    if size is not None and image.size != size:
        image = ImageOps.fit(image, size, Image.Resampling.BILINEAR)
    return image


def pixels_of(image: Image.Image) -> Pixels:
    """A grey or RGB image as (1 or 3 channels, height, width)."""
    pixels = np.asarray(image)
    return pixels[None] if pixels.ndim == 2 else np.ascontiguousarray(pixels.transpose(2, 0, 1))


def reason(error: Exception) -> str:
    """Why a picture could not be read, in one printable line."""
    if isinstance(error, UnidentifiedImageError):
        return "not an image that can be read (" + ", ".join(FORMATS) + ")"
    if isinstance(error, (Image.DecompressionBombError, Image.DecompressionBombWarning)):
        return f"claims more pixels than the limit of {MOST_PIXELS:,}"
    if isinstance(error, OSError) and error.strerror:
        return shown(f"cannot be read: {error.strerror}")
    return shown(str(error) or type(error).__name__)[: 500 if isinstance(error, UserError) else 160]


def _upright(image: Image.Image) -> Image.Image:
    try:
        turned = image.getexif().get(0x0112, 1) != 1  # the tag Orientation; transposing would copy all the others
        return ImageOps.exif_transpose(image) if turned else image
    except Warning:
        raise
    except Exception:  # a broken EXIF note does not make the picture unreadable
        return image


def _plain(image: Image.Image) -> Image.Image:
    """Any mode of Pillow's as grey (L) or RGB with 8 bits a channel."""
    mode = image.mode
    if mode in ("L", "RGB"):
        return image
    if mode.startswith("I") or mode == "F":
        return Image.fromarray(_deep(np.asarray(image)))
    if "A" in mode or "a" in mode or "transparency" in image.info:
        clear = image.convert("RGBA")
        paper = Image.new("RGBA", clear.size, "white")
        flat = Image.alpha_composite(paper, clear)
        return flat.convert("L" if mode in ("LA", "La", "1") else "RGB")
    return image.convert("L" if mode == "1" else "RGB")


def _deep(values: npt.NDArray[np.generic]) -> Pixels:
    """Grey of 16 bits, or floats in [0, 1], to 8 bits; Pillow itself would clip them at 255."""
    numbers = values.astype(np.float64)
    top = 1.0 if values.dtype.kind == "f" else 65535.0
    low, high = float(numbers.min()), float(numbers.max())
    if not (low >= 0 and high <= top):
        raise ValueError(f"has values from {low:g} to {high:g}: expected 0 to {top:g}")
    return np.rint(numbers * (255 / top)).astype(np.uint8)
