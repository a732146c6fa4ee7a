"""Images for a page: PNG bytes as data URLs, large ones reduced, films cut into their frames."""

from __future__ import annotations

import io
import struct
from base64 import b64encode
from dataclasses import dataclass

from PIL import Image

EXACT = 4_000  # bytes: a PNG up to this size is shown as it is
SIDE = 160  # pixels: larger images are shown at most this wide and high
_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_PIXELS = 50_000_000  # more than any image of a finding, less than a decompression bomb


@dataclass(frozen=True)
class Picture:
    source: str  # a data URL
    width: int
    height: int
    reduced: bool = False

    @property
    def small(self) -> bool:
        """Few enough pixels that a reader should see each of them."""
        return max(self.width, self.height) <= 64


def _url(kind: str, data: bytes) -> str:
    return f"data:image/{kind};base64,{b64encode(data).decode()}"


def size(png: bytes) -> tuple[int, int] | None:
    """Width and height as a PNG's header says them; None for what is no PNG, or is too large to be true."""
    if len(png) < 24 or not png.startswith(_SIGNATURE):
        return None
    width, height = struct.unpack(">II", png[16:24])
    return (width, height) if 0 < width * height <= _PIXELS else None


def picture(png: bytes | None) -> Picture | None:
    """An image for the page; None where there is none, or where the bytes are no image."""
    if png is None or (shape := size(png)) is None:
        return None
    if len(png) <= EXACT:
        return Picture(_url("png", png), *shape)
    try:
        with Image.open(io.BytesIO(png), formats=("PNG",)) as image:
            image.thumbnail((SIDE, SIDE))
            pixels = image if image.mode in ("L", "RGB") else image.convert("RGB")
            out = io.BytesIO()
            pixels.save(out, "JPEG", quality=85, subsampling=0)
    except (OSError, SyntaxError, ValueError):
        return None
    return Picture(_url("jpeg", out.getvalue()), *pixels.size, reduced=True)


def frames(film: bytes | None, count: int) -> list[Picture] | None:
    """The `count` frames of a film, which lie side by side and are equally wide; None if it has others."""
    if film is None or count < 1 or (shape := size(film)) is None or shape[0] % count:
        return None
    width, height = shape[0] // count, shape[1]
    pictures = []
    try:
        with Image.open(io.BytesIO(film), formats=("PNG",)) as image:
            for frame in range(count):
                out = io.BytesIO()
                image.crop((frame * width, 0, (frame + 1) * width, height)).save(out, "PNG", optimize=True)
                pictures.append(Picture(_url("png", out.getvalue()), width, height))
    except (OSError, SyntaxError, ValueError):
        return None
    return pictures
