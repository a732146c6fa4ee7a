"""Image files of any kind as one block of 8-bit pixels; what cannot be read is set aside with a reason."""

from __future__ import annotations

import io
import itertools
import os
import warnings
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageOps, UnidentifiedImageError

from foible.data.dataset import shown, with_option
from foible.errors import UserError
from foible.progress import progress

Pixels = npt.NDArray[np.uint8]

MOST_PIXELS = 64_000_000  # of one image; a file that claims more is taken for a decompression bomb
FORMATS = ("PNG", "JPEG", "BMP", "GIF", "WEBP", "TIFF", "PPM")
SUFFIXES = frozenset(
    (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm", ".pbm", ".pnm")
)
CHUNK = 32  # images to a task of the pool: tiny images would drown in the cost of handing them over one by one
BLOCK = 64 * CHUNK


@dataclass(frozen=True)
class Look:
    """How pictures are to come out.

    `size` is (width, height), or None to take them as they are. `grey`: True for 1 channel, False for 3, None
    for 1 where all are grey and else 3. `test` is the share of each class to hold out.
    """

    size: tuple[int, int] | None = None
    grey: bool | None = None
    test: Fraction | None = None


def look(spec: str, *, size: str, grey: str, test: str) -> Look:
    """The options of a spec, from text: `size=64`, `size=64x48` (width x height), `grey=true`, `test=0.2`."""
    shape: tuple[int, int] | None = None
    if size:
        parts = size.lower().split("x")
        if len(parts) > 2 or not all(p.isascii() and p.isdigit() and 1 <= int(p) <= 8192 for p in parts):
            raise UserError(f"{spec}: size is {size!r}: expected size=64 or size=64x48 (width x height, up to 8192)")
        shape = int(parts[0]), int(parts[-1])
    choices = {"": None, "true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
    if grey.lower() not in choices:
        raise UserError(f"{spec}: grey is {grey!r}: expected true or false")
    return Look(shape, choices[grey.lower()], share(spec, test))


def share(spec: str, test: str) -> Fraction | None:
    """The option `test=0.2`: a share between 0 and 1, or None where it is not given."""
    if not test:
        return None
    try:
        part = Fraction(test).limit_denominator(1000)
    except (ValueError, ZeroDivisionError):
        part = Fraction(0)
    if not 0 < part < 1:
        raise UserError(f"{spec}: test is {test!r}: expected a share between 0 and 1, such as test=0.2")
    return part


@dataclass
class Stack:
    """Images (n, channels, height, width), which of the given ones they are, and a line for each left out."""

    images: Pixels
    kept: npt.NDArray[np.int64]
    problems: list[str] = field(default_factory=list)


def stack(items: Iterable[tuple[str, Path | bytes | None]], total: int, spec: str, how: Look, quiet: bool) -> Stack:
    """Decode `total` items, each a name for messages and a file, its bytes, or None for nothing there.

    Pillow lets go of the interpreter's lock while it decodes, so threads share the work.
    """
    images: Pixels | None = None
    first_name = ""
    kept: list[int] = []
    problems: list[str] = []
    with _QuietPillow(), _pool() as pool, progress(f"Reading {shown(spec)}", total, quiet=quiet) as bar:
        for start, block in _blocks(items):
            chunks = [block[i : i + CHUNK] for i in range(0, len(block), CHUNK)]
            decoded = itertools.chain.from_iterable(pool.map(lambda chunk: [_try(s, how) for _, s in chunk], chunks))
            for offset, ((name, _), picture) in enumerate(zip(block, decoded, strict=True)):
                if isinstance(picture, str):
                    problems.append(f"{shown(name)}: {picture}")
                    continue
                if images is None:
                    images, first_name = _room(spec, (total, *picture.shape)), name
                if picture.shape[1:] != images.shape[2:]:
                    raise _mixed(spec, (first_name, images.shape), (name, picture.shape))
                if len(picture) > images.shape[1]:  # the first in colour among grey ones
                    images = np.repeat(images, 3, axis=1)
                images[len(kept)] = picture  # a grey one among coloured ones fills all three channels
                kept.append(start + offset)
            bar.advance(len(block))
    if images is None:
        raise UserError(
            f"{spec}: none of {total} images could be read; the first: {problems[0] if problems else 'there is none'}"
        )
    return Stack(images[: len(kept)], np.array(kept, np.int64), problems)


def decode(source: Path | bytes, how: Look) -> Pixels:
    """One image as (1 or 3 channels, height, width), upright by its EXIF note, on white where transparent."""
    with (
        source.open("rb") if isinstance(source, Path) else io.BytesIO(source) as file,
        Image.open(file, formats=FORMATS) as opened,
    ):
        width, height = opened.size
        if width * height > MOST_PIXELS:
            raise ValueError(f"claims {width}×{height} pixels, more than the limit of {MOST_PIXELS:,}")
        opened.load()
        image = _plain(_upright(opened))
        mode = image.mode if how.grey is None else ("L" if how.grey else "RGB")
        if image.mode != mode:
            image = image.convert(mode)
        if how.size is not None and image.size != how.size:
            image = ImageOps.fit(image, how.size, Image.Resampling.BILINEAR)
        pixels = np.asarray(image)
    return pixels[None] if pixels.ndim == 2 else np.ascontiguousarray(pixels.transpose(2, 0, 1))


def _try(source: Path | bytes | None, how: Look) -> Pixels | str:
    """The pixels, or why there are none. Any exception counts: the bytes may be anything."""
    if source is None:
        return "holds no image bytes"
    try:
        return decode(source, how)
    except UnidentifiedImageError:
        return "not an image that can be read (" + ", ".join(FORMATS) + ")"
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        return f"claims more pixels than the limit of {MOST_PIXELS:,}"
    except Exception as error:
        return shown(str(error) or type(error).__name__)[:160]


def _upright(image: Image.Image) -> Image.Image:
    try:
        turned = image.getexif().get(0x0112, 1) != 1  # the tag Orientation; transposing would copy all the others
        return ImageOps.exif_transpose(image) if turned else image
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


def _blocks(
    items: Iterable[tuple[str, Path | bytes | None]],
) -> Iterator[tuple[int, list[tuple[str, Path | bytes | None]]]]:
    walk, start = iter(items), 0
    while block := list(itertools.islice(walk, BLOCK)):
        yield start, block
        start += len(block)


def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(min(8, os.cpu_count() or 1), thread_name_prefix="foible-decode")


class _QuietPillow(warnings.catch_warnings):
    """Pillow warns of many oddities that do not matter here; of a decompression bomb it must raise."""

    def __enter__(self) -> None:
        super().__enter__()
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", Image.DecompressionBombWarning)


def _room(spec: str, shape: tuple[int, ...]) -> Pixels:
    try:
        return np.empty(shape, np.uint8)
    except MemoryError as error:
        gib = np.prod(np.array(shape, float)) / 2**30
        raise UserError(
            f"{spec}: {shape[0]} images of {shape[3]}×{shape[2]} need {gib:.1f} GiB, more memory than there "
            "is: give a smaller size"
        ) from error


def _mixed(spec: str, one: tuple[str, Sequence[int]], other: tuple[str, Sequence[int]]) -> UserError:
    sizes = " and ".join(f"{shown(name)} is {shape[-1]}×{shape[-2]}" for name, shape in (one, other))
    return UserError(
        f"{spec} holds images of different sizes ({sizes}, width×height): write "
        f"{with_option(spec, 'size=64')}, or size=WIDTHxHEIGHT, to crop each to that shape and resize it"
    )
