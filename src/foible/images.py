"""Images as tensors, as 8-bit pixels and as PNG bytes."""

from __future__ import annotations

import io
import os
import struct
import zlib
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import parent_process

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from foible.errors import UserError

# Below this many rows a CPU matrix product takes another path, and the last bits change with the batch: pad to it.
LEAST_ROWS = 16
MOST_PIXELS = 64_000_000  # of one image; a file that claims more is taken for a decompression bomb
MOST_JUDGED = 1 << 22  # of one image that networks are to judge: 2048×2048, padded to `LEAST_ROWS` rows of floats
SIGNATURE = b"\x89PNG\r\n\x1a\n"
END = b"\0\0\0\0IEND\xaeB`\x82"
PART = 200_000  # bytes of pixels that a thread encodes at a time: one photograph, or some hundred drawn digits
FEEDS = 500  # bytes of an image for each further thread: with fewer they only wait for the interpreter's lock


def settle(images: Tensor) -> Tensor:
    """Clip to [0, 1] and round to 8 bits: what a PNG will hold. Gradients pass straight through."""
    settled = (images.detach().clamp(0, 1) * 255).round() / 255
    return images + (settled - images).detach() if images.requires_grad else settled


def to_bytes(images: Tensor) -> Tensor:
    """(n, channels, height, width) in [0, 1] to uint8, with the same rounding as `settle`."""
    return (images * 255).round_().clamp_(0, 255).to(torch.uint8)


def to_floats(images: Tensor) -> Tensor:
    """uint8 to float32 in [0, 1]; floats pass unchanged."""
    return images.to(torch.float32) / 255 if images.dtype == torch.uint8 else images


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(body, zlib.crc32(kind)))


def encode_pngs(images: np.ndarray) -> list[bytes]:
    """uint8 images (n, channels, height, width), grey or RGB, as PNG bytes each. The same bytes every time.

    Written out here because it is on the path of every trial: several times as fast as a general encoder
    for the small images of the papers. All cores take part, but not in a worker process, which has one for itself.
    """
    channels, height, width = images.shape[1:]
    if channels not in (1, 3):
        raise ValueError(f"images have {channels} channels: a PNG here holds 1 (grey) or 3 (RGB)")
    header = struct.pack(">IIBBBBB", width, height, 8, 2 if channels == 3 else 0, 0, 0, 0)
    start = SIGNATURE + _chunk(b"IHDR", header)

    def encode(part: np.ndarray) -> list[bytes]:
        rows = np.zeros((len(part), height, 1 + width * channels), np.uint8)  # a zero before each row: no filter
        rows[:, :, 1:] = part.transpose(0, 2, 3, 1).reshape(len(part), height, -1)
        return [start + _chunk(b"IDAT", _deflate(image)) + END for image in rows]

    each = max(1, PART // (height * (1 + width * channels)))
    parts = [images[begin : begin + each] for begin in range(0, len(images), each)]
    if len(parts) < 2 or parent_process() is not None:
        return [png for part in parts for png in encode(part)]
    threads = min(len(parts), os.cpu_count() or 1, 1 + parts[0][0].size // FEEDS)
    with ThreadPoolExecutor(threads) as pool:  # zlib lets go of the interpreter's lock
        return [png for done in pool.map(encode, parts) for png in done]


def _deflate(data: np.ndarray) -> bytes:
    """Runs only: for drawn images as small as the general way and a third faster, for photographs nearly so."""
    packer = zlib.compressobj(3, strategy=zlib.Z_RLE)
    return packer.compress(data.data) + packer.flush()


def encode_png(image: Tensor | np.ndarray) -> bytes:
    """One uint8 image (channels, height, width), grey or RGB, as PNG bytes."""
    return encode_pngs(np.asarray(image)[None])[0]


def png_size(data: bytes) -> tuple[int, int] | None:
    """(width, height) as a PNG's header says them, without decoding; None for what is no PNG."""
    if len(data) < 24 or not data.startswith(SIGNATURE) or data[12:16] != b"IHDR":
        return None
    width, height = struct.unpack(">II", data[16:24])
    return width, height


def decode_png(data: bytes | None, of: str = "a finding", most: int = MOST_PIXELS) -> Tensor:
    """PNG bytes to a uint8 tensor (channels, height, width), read with Pillow.

    The bytes may come from anybody: what is no whole PNG of at most `most` pixels is a `UserError` that names `of`.
    """
    try:
        return _pixels(data, most)
    except Exception as error:  # Pillow raises whatever the bytes lead it to
        why = str(error) or type(error).__name__
        raise UserError(
            f"the image of {of} cannot be read ({why}): expected a PNG of at most {most:,} pixels; the file that it is "
            "in is damaged or not ours"
        ) from error


def _pixels(data: bytes | None, most: int) -> Tensor:
    size = png_size(data) if data else None
    if data is None or size is None:
        raise ValueError("it is no PNG" if data else "there is none")
    if not data.endswith(END):
        raise ValueError("it is cut short, or something follows it")
    _bound(size, most)
    # Only PNG is asked for: other formats of Pillow's reach for programs outside, such as Ghostscript.
    with Image.open(io.BytesIO(data), formats=("PNG",)) as image:
        _bound(image.size, most)  # a second header may follow
        pixels = np.array(image if image.mode in ("L", "RGB") else image.convert("RGB"))
    return torch.from_numpy(pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1).copy())


def _bound(size: tuple[int, int], most: int) -> None:
    width, height = size
    if not 0 < width * height <= most:
        raise ValueError(f"it claims {width}×{height} pixels")
