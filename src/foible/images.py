"""Images as tensors, as 8-bit pixels and as PNG bytes."""

from __future__ import annotations

import io
import struct
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from foible.errors import UserError
from foible.png import END, SIGNATURE
from foible.png import encode_png as encode_png
from foible.png import encode_pngs as encode_pngs

if TYPE_CHECKING:  # whoever has tensors has loaded torch already; to read a run nobody needs it
    from torch import Tensor

# Below this many rows a CPU matrix product takes another path, and the last bits change with the batch: pad to it.
LEAST_ROWS = 16
MOST_PIXELS = 64_000_000  # of one image; a file that claims more is taken for a decompression bomb
MOST_JUDGED = 1 << 22  # of one image that networks are to judge: 2048×2048, padded to `LEAST_ROWS` rows of floats


def settle(images: Tensor) -> Tensor:
    """Clip to [0, 1] and round to 8 bits: what a PNG will hold. Gradients pass straight through."""
    settled = images.detach().clamp(0, 1).mul_(255).round_().div_(255)
    return images + (settled - images).detach() if images.requires_grad else settled


def to_bytes(images: Tensor) -> Tensor:
    """(n, channels, height, width) in [0, 1] to uint8, with the same rounding as `settle`."""
    return (images * 255).round_().clamp_(0, 255).byte()


def to_floats(images: Tensor) -> Tensor:
    """uint8 to float32 in [0, 1]; floats pass unchanged."""
    import torch

    return images.to(torch.float32) / 255 if images.dtype == torch.uint8 else images


def pixels_together(images: Tensor) -> Tensor:
    """The same images (n, channels, height, width), a pixel's channels side by side in memory, and said to be so by
    their strides even where there is one channel."""
    import torch

    if images.shape[1] == 1:
        return images[:, 0].contiguous().unsqueeze(-1).movedim(-1, 1)
    return images.contiguous(memory_format=torch.channels_last)


def png_size(data: bytes) -> tuple[int, int] | None:
    """(width, height) as a PNG's header says them, without decoding; None for what is no PNG."""
    if len(data) < 24 or not data.startswith(SIGNATURE) or data[12:16] != b"IHDR":
        return None
    width, height = struct.unpack(">II", data[16:24])
    return width, height


def decode_png(data: bytes | None, of: str = "a finding", most: int = MOST_PIXELS) -> Tensor:
    """PNG bytes to a uint8 tensor (channels, height, width). of, most: as in `decode_pixels`."""
    import torch

    return torch.from_numpy(decode_pixels(data, of, most))


def decode_pixels(data: bytes | None, of: str = "a finding", most: int = MOST_PIXELS) -> npt.NDArray[np.uint8]:
    """PNG bytes to uint8 (channels, height, width), read with Pillow.

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


def _pixels(data: bytes | None, most: int) -> npt.NDArray[np.uint8]:
    from PIL import Image

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
    return pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1).copy()


def _bound(size: tuple[int, int], most: int) -> None:
    width, height = size
    if not 0 < width * height <= most:
        raise ValueError(f"it claims {width}×{height} pixels")
