"""hf:FOLDER: an AutoencoderKL of diffusers, the autoencoder of latent diffusion (Rombach et al. 2022).

The folder is as `save_pretrained` wrote it: config.json and diffusion_pytorch_model.safetensors. Codes are its latents,
scaled as diffusion models take them (about variance 1) and flat; pixels go from [0, 1] to its [−1, 1] and back.
"""

from __future__ import annotations

import hashlib
import math
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from foible.errors import UserError
from foible.generators.base import Shape
from foible.generators.own import Own
from foible.networks.load.opened import first_line, optional
from foible.networks.load.specs import fingerprint
from foible.records import NUMBER, POSITIVE, TEXT, check, read_json

CONFIG, WEIGHTS = "config.json", "diffusion_pytorch_model.safetensors"
SAVED = f"give the folder as save_pretrained wrote it, with {CONFIG} and {WEIGHTS}"
SIDES = (POSITIVE, [POSITIVE])
FORM = {
    "_class_name": TEXT, "in_channels?": POSITIVE, "sample_size?": (None, *SIDES), "scaling_factor?": (None, NUMBER),
    "shift_factor?": (None, NUMBER),
}  # fmt: skip


class Latents:
    """An AutoencoderKL as an encoder from [0, 1] to scaled latents (n, channels, height, width), and back."""

    def __init__(self, inner: Any, scale: float, shift: float) -> None:
        self.inner, self.scale, self.shift = inner, scale, shift

    def encode(self, images: Tensor) -> Tensor:
        mean: Tensor = self.inner.encode(2 * images - 1).latent_dist.mean
        return (mean - self.shift) * self.scale

    def decode(self, latents: Tensor) -> Tensor:
        made: Tensor = self.inner.decode(latents / self.scale + self.shift).sample
        return (made / 2 + 0.5).clamp(0, 1)

    def to(self, device: str | torch.device) -> Latents:
        self.inner = self.inner.to(device)
        return self


def open_hf(place: str, spec: str, shape: Shape | None) -> Own:
    """The autoencoder in a folder; nothing is fetched. shape: of the images, else that of its configuration."""
    folder = Path(place).expanduser()
    try:
        config = check(read_json(folder / CONFIG, SAVED), FORM, str(folder / CONFIG), SAVED)
    except (FileNotFoundError, NotADirectoryError):
        raise UserError(f"{spec!r} names no folder with {CONFIG}: {SAVED}; nothing is downloaded here") from None
    if config["_class_name"] != "AutoencoderKL":
        raise UserError(f"{folder / CONFIG} is of {config['_class_name']!r}: expected an AutoencoderKL")
    if not (folder / WEIGHTS).is_file():
        raise UserError(f"{folder} has no {WEIGHTS}: {SAVED}; pickles are not loaded")
    maker = optional("diffusers", "diffusers", spec).AutoencoderKL
    try:
        inner: nn.Module = maker.from_pretrained(str(folder), use_safetensors=True, local_files_only=True)
    except Exception as error:
        raise UserError(f"{spec!r} could not be loaded ({first_line(error)}): {SAVED}") from error
    inner = inner.float().eval().requires_grad_(False)
    size = config.get("sample_size") or 32
    high, wide = (size, size) if isinstance(size, int) else (size[0], size[-1])
    takes = shape or (config.get("in_channels") or 3, high, wide)
    scale, shift = config.get("scaling_factor") or 1.0, config.get("shift_factor") or 0.0
    if not math.isfinite(scale) or scale <= 0:
        raise UserError(f"{folder / CONFIG}: scaling_factor is {scale}: expected a number above 0")
    hashed = hashlib.sha256(f"{fingerprint(inner)} {scale} {shift} {takes}".encode()).hexdigest()
    return Own(Latents(inner, scale, shift), spec, hashed, takes)
