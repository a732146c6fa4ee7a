"""What a generator makes, as sheets of small images: samples, reconstructions beside originals, the latent square."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from foible.disk import write_atomically
from foible.generators.base import Coder, Drawer
from foible.generators.health import samples
from foible.images import encode_png, to_bytes, to_floats

ACROSS = 12  # images in a row
SQUARE, STEPS = 3.0, 21  # the latent square of two dimensions: from −3 to 3, so many decodings each way
WIDE = 720  # pixels that a sheet is enlarged to, by a whole factor
GAP, PAPER = 2, 255


@torch.no_grad()
def draw(model: Drawer, held_out: Tensor, out: Path) -> None:
    """Write samples.png, where it encodes reconstructions.png and, of two dimensions, square.png. held_out: uint8
    (n, *shape)."""
    model.eval()
    sheets = {"samples": sheet(samples(model, 8 * ACROSS), ACROSS)}
    originals = to_floats(held_out[: 4 * ACROSS])
    if isinstance(model, Coder):
        again = model.decode(model.encode(originals))
        rows = [row for pair in zip(originals.split(ACROSS), again.split(ACROSS), strict=True) for row in pair]
        sheets["reconstructions"] = sheet(torch.cat(rows), min(ACROSS, len(originals)))
    if model.latent == 2:
        sheets["square"] = sheet(model.decode(square().to(originals.device)), STEPS)
    for name, pixels in sheets.items():
        write_atomically(out / f"{name}.png", encode_png(pixels))


def square() -> Tensor:
    """(STEPS², 2): codes in rows from the top, where the second number is largest."""
    along = torch.linspace(-SQUARE, SQUARE, STEPS)
    second, first = torch.meshgrid(along.flip(0), along, indexing="ij")
    return torch.stack([first, second], -1).flatten(0, 1)


def sheet(images: Tensor, columns: int) -> Tensor:
    """Images (n, channels, height, width) in [0, 1] side by side, as one of uint8 (channels, …, …) on the CPU."""
    n, channels, height, width = images.shape
    rows = -(-n // columns)
    factor = max(1, WIDE // (columns * (width + GAP)))
    pixels = to_bytes(images).cpu().repeat_interleave(factor, 2).repeat_interleave(factor, 3)
    cells = torch.full(
        (rows * columns, channels, height * factor + GAP, width * factor + GAP), PAPER, dtype=torch.uint8
    )
    cells[:n, :, : height * factor, : width * factor] = pixels
    whole: Tensor = cells.unflatten(0, (rows, columns)).permute(2, 0, 3, 1, 4).flatten(3, 4).flatten(1, 2)
    return whole[:, :-GAP, :-GAP].contiguous()
