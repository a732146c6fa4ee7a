"""Images as tensors, as 8-bit pixels and as PNG bytes."""

from __future__ import annotations

import io
import struct
import zlib
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import parent_process

import numpy as np
import torch
from PIL import Image
from torch import Tensor

# Below this many rows a CPU matrix product takes another path, and the last bits change with the batch: pad to it.
LEAST_ROWS = 16
LARGE = 20_000  # bytes of an image from which on encoding is shared out among threads, where no worker process does it


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
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def encode_pngs(images: np.ndarray) -> list[bytes]:
    """uint8 images (n, channels, height, width), grey or RGB, as PNG bytes each. The same bytes every time.

    Written out here because it is on the path of every trial: several times as fast as a general encoder
    for the small images of the papers.
    """
    count, channels, height, width = images.shape
    if channels not in (1, 3):
        raise ValueError(f"images have {channels} channels: a PNG here holds 1 (grey) or 3 (RGB)")
    rows = np.zeros((count, height, 1 + width * channels), np.uint8)  # a zero before each row: no filter
    rows[:, :, 1:] = images.transpose(0, 2, 3, 1).reshape(count, height, -1)
    header = struct.pack(">IIBBBBB", width, height, 8, 2 if channels == 3 else 0, 0, 0, 0)
    start, end = b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header), _chunk(b"IEND", b"")

    def encode(image: np.ndarray) -> bytes:
        return start + _chunk(b"IDAT", _deflate(image)) + end

    if rows[:1].size < LARGE or count < 2 or parent_process() is not None:
        return [encode(image) for image in rows]
    with ThreadPoolExecutor() as pool:  # zlib lets go of the interpreter's lock
        return list(pool.map(encode, rows))


def _deflate(data: np.ndarray) -> bytes:
    """Runs only: for drawn images as small as the general way and a third faster, for photographs nearly so."""
    packer = zlib.compressobj(3, strategy=zlib.Z_RLE)
    return packer.compress(data.tobytes()) + packer.flush()


def encode_png(image: Tensor | np.ndarray) -> bytes:
    """One uint8 image (channels, height, width), grey or RGB, as PNG bytes."""
    return encode_pngs(np.asarray(image)[None])[0]


def decode_png(data: bytes) -> Tensor:
    """PNG bytes to a uint8 tensor (channels, height, width), read with Pillow."""
    with Image.open(io.BytesIO(data)) as image:
        pixels = np.array(image if image.mode in ("L", "RGB") else image.convert("RGB"))
    return torch.from_numpy(pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1).copy())
