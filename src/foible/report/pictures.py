"""Images for a page: PNG bytes as data URLs, large ones reduced, films cut into their frames."""

from __future__ import annotations

import io
from base64 import b64encode
from dataclasses import dataclass

from PIL import Image

from foible.images import MOST_PIXELS, png_size

EXACT = 4_000  # bytes: a PNG up to this size is shown as it is
PLAIN = 1 << 20  # pixels: one that unpacks to more is shown as a copy, however few bytes it has
SIDE = 224  # pixels: larger images are shown at most this wide and high, unless asked otherwise
SMALL = 64  # pixels


@dataclass(frozen=True)
class Picture:
    source: str  # a data URL
    width: int
    height: int
    copied: bool = False  # not the PNG itself, but a compressed and perhaps smaller copy
    shrunk: bool = False  # has fewer pixels than the image

    @property
    def small(self) -> bool:
        """An image of so few pixels that a reader should see each of them; a shrunk photograph is not one."""
        return not self.shrunk and max(self.width, self.height) <= SMALL


def _url(kind: str, data: bytes) -> str:
    return f"data:image/{kind};base64,{b64encode(data).decode()}"


def size(png: bytes) -> tuple[int, int] | None:
    """Width and height as a PNG's header says them; None for what is no PNG, or is too large to be true."""
    shape = png_size(png)
    return shape if shape is not None and 0 < shape[0] * shape[1] <= MOST_PIXELS else None


def whole(png: bytes) -> Picture | None:
    """A figure of ours as it is, however large; None where the bytes are no PNG."""
    shape = size(png)
    return None if shape is None else Picture(_url("png", png), *shape, shrunk=True)


def picture(png: bytes | None, side: int = SIDE) -> Picture | None:
    """An image for the page, at most `side` wide and high where it is a copy; None where the bytes are no image."""
    if png is None or (shape := size(png)) is None:
        return None
    if len(png) <= EXACT and shape[0] * shape[1] <= PLAIN:
        return Picture(_url("png", png), *shape)
    try:
        with Image.open(io.BytesIO(png), formats=("PNG",)) as image:
            image.thumbnail((side, side))
            pixels = image if image.mode in ("L", "RGB") else image.convert("RGB")
            out = io.BytesIO()
            pixels.save(out, "JPEG", quality=85, subsampling=0)
    except Exception:  # the bytes may be anything
        return None
    return Picture(_url("jpeg", out.getvalue()), *pixels.size, copied=True, shrunk=pixels.size != shape)


def frames(film: bytes | None, count: int, image: bytes | None = None) -> list[Picture] | None:
    """The `count` frames of a film, which lie side by side and are equally wide; None if it has others.

    image: what the film ends with, as a PNG: a film that is less high shows it shrunk.
    """
    if film is None or count < 1 or (shape := size(film)) is None or shape[0] % count:
        return None
    width, height = shape[0] // count, shape[1]
    full = size(image) if image is not None else None
    shrunk = full is not None and full[1] > height
    pictures = []
    try:
        with Image.open(io.BytesIO(film), formats=("PNG",)) as strip:
            for frame in range(count):
                out = io.BytesIO()
                strip.crop((frame * width, 0, (frame + 1) * width, height)).save(out, "PNG", optimize=True)
                pictures.append(Picture(_url("png", out.getvalue()), width, height, shrunk=shrunk))
    except Exception:  # the bytes may be anything
        return None
    return pictures
