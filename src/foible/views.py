"""A view: how a photograph of any size becomes the pixels that a network was trained on. Resize, then crop.

Done with Pillow on 8-bit pixels, as timm, torchvision and transformers do it, so that a network sees here what it saw
there. What comes out is uint8; normalising is the business of `foible.networks.preprocess`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageOps

from foible.errors import UserError
from foible.records import SIZE, TEXT, check, whole

Interpolation = Literal["nearest", "box", "bilinear", "hamming", "bicubic", "lanczos"]
INTERPOLATIONS: tuple[str, ...] = ("nearest", "box", "bilinear", "hamming", "bicubic", "lanczos")
Fit = Literal["stretch", "cover", "contain"]
FORM = {
    "size": SIZE, "resize": (None, whole(1, 2**16), SIZE), "interpolation": TEXT, "fit?": TEXT,
    "fill?": [whole(0, 255)], "halves?": TEXT,
}  # of a view as JSON  # fmt: skip


@dataclass(frozen=True)
class View:
    """What comes out is `size`, (height, width). `resize` says how it gets there:

    None: the largest crop about the centre that has the shape of `size`, resized to it;
    a number: the shorter side becomes that many pixels, and `size` is cropped about the centre;
    (height, width): by `fit`: exactly that, whatever the shape was ("stretch"); the smallest that covers it, with
    the sides in proportion ("cover"); or the largest that it contains ("contain"). Then `size` is cropped.

    Where the resized photograph is smaller than the crop, `fill` (one number, or one a channel) takes the rest.
    `halves` says where a crop begins when half a pixel is left over: at the even number, as in torchvision and timm, or
    at the lower one, as in transformers.
    """

    size: tuple[int, int]
    resize: int | tuple[int, int] | None = None
    interpolation: Interpolation = "bilinear"
    fit: Fit = "stretch"
    fill: tuple[int, ...] = (0,)
    halves: Literal["even", "down"] = "even"

    def __post_init__(self) -> None:
        sides = [
            *self.size,
            *(self.resize if isinstance(self.resize, tuple) else [1 if self.resize is None else self.resize]),
        ]
        pairs = [self.size, *([self.resize] if isinstance(self.resize, tuple) else [])]
        if not all(len(pair) == 2 for pair in pairs) or not all(type(n) is int and 1 <= n <= 8192 for n in sides):
            raise UserError(f"a view of size {self.size}, resize {self.resize}: expected whole pixels, 1 to 8192")
        if self.interpolation not in INTERPOLATIONS:
            raise UserError(f"interpolation is {self.interpolation!r}: expected one of {', '.join(INTERPOLATIONS)}")
        if self.fit not in ("stretch", "cover", "contain") or self.halves not in ("even", "down"):
            raise UserError(f"a view with fit {self.fit!r}, halves {self.halves!r}: see foible.views.View")
        if not self.fill or not all(type(n) is int and 0 <= n <= 255 for n in self.fill):
            raise UserError(f"a view's fill is {self.fill}: expected whole numbers, 0 to 255")

    def __call__(self, image: Image.Image) -> npt.NDArray[np.uint8]:
        """`image` (grey or RGB, 8 bits) as (channels, height, width)."""
        height, width = self.size
        how = Image.Resampling[self.interpolation.upper()]
        if self.resize is None:
            if image.size != (width, height):
                image = ImageOps.fit(image, (width, height), how)
        else:
            to = self._resized(image.width, image.height, self.resize)
            image = image if image.size == to else image.resize(to, how)
            if image.size != (width, height):
                image = self._cropped(image, width, height)
        pixels = np.asarray(image)
        return pixels[None] if pixels.ndim == 2 else np.ascontiguousarray(pixels.transpose(2, 0, 1))

    def to_json(self) -> dict[str, Any]:
        resize = list(self.resize) if isinstance(self.resize, tuple) else self.resize
        record = {"size": list(self.size), "resize": resize, "interpolation": self.interpolation}
        return record | {"fit": self.fit, "fill": list(self.fill), "halves": self.halves}

    @staticmethod
    def from_json(record: Any, where: str) -> View:
        """The opposite of `to_json`; keys that it does not know are passed over."""
        check(record, FORM, where)
        names = [key.removesuffix("?") for key in FORM]
        known: dict[str, Any] = {name: record[name] for name in names if name in record}
        known = {name: tuple(value) if isinstance(value, list) else value for name, value in known.items()}
        return View(**known)

    def _resized(self, width: int, height: int, to: int | tuple[int, int]) -> tuple[int, int]:
        """(width, height) after resizing; at least one pixel either way."""
        if isinstance(to, int):
            other = int(to * max(width, height) / min(width, height))  # cut, not rounded: as torchvision does
            return (to, other) if width <= height else (other, to)
        if self.fit == "stretch":
            return to[1], to[0]
        ratios = height / to[0], width / to[1]
        ratio = min(ratios) if self.fit == "cover" else max(ratios)
        return max(1, round(width / ratio)), max(1, round(height / ratio))

    def _cropped(self, image: Image.Image, width: int, height: int) -> Image.Image:
        over = max(0, width - image.width), max(0, height - image.height)
        if any(over):  # the odd pixel goes to the right and below
            fill = self.fill[0] if image.mode == "L" or len(self.fill) == 1 else self.fill
            padded = Image.new(
                image.mode,
                (image.width + over[0], image.height + over[1]),
                (fill,) * 3 if isinstance(fill, int) and image.mode == "RGB" else fill,
            )
            padded.paste(image, (over[0] // 2, over[1] // 2))
            image = padded
        spare = (image.width - width) / 2, (image.height - height) / 2
        left, top = (round(n) if self.halves == "even" else int(n) for n in spare)
        return image.crop((left, top, left + width, top + height))
