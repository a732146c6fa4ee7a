"""A user's own generator, FILE.py:NAME: anything with `encode` and `decode`, or a function that makes it."""

from __future__ import annotations

import hashlib
import math
from typing import Any

import torch
from torch import Tensor, nn

from foible.errors import UserError
from foible.generators.base import Shape
from foible.networks.load.specs import fingerprint
from foible.permission import Permission, beside, code_sha256
from foible.randomness import uniforms
from foible.specs import Spec

SLACK = 1e-3  # beyond [0, 1] that a decoder's rounding may reach


class Own:
    """A generator around what a user has: codes are flat, an encoder that says (mean, log variance) is taken by its
    mean, and answers are checked when it is opened."""

    def __init__(self, inner: Any, spec: str, hashed: str, shape: Shape) -> None:
        self.inner, self.spec, self.fingerprint, self.shape = inner, spec, hashed, shape
        self.inside: tuple[int, ...] = ()  # the shape of one code, as the user has it
        self._meet()
        self.latent = math.prod(self.inside)

    def encode(self, images: Tensor) -> Tensor:
        """(n, *shape) in [0, 1] to codes (n, latent)."""
        return self._said(images).flatten(1)

    def decode(self, codes: Tensor) -> Tensor:
        """(n, latent) to images (n, *shape)."""
        images: Tensor = self.inner.decode(codes.unflatten(1, self.inside) if len(self.inside) > 1 else codes)
        return images

    def to(self, device: str | torch.device) -> Own:
        """Itself, on this device: what it is made of is moved if it can be."""
        if hasattr(self.inner, "to"):
            self.inner = self.inner.to(device)
        return self

    def _said(self, images: Tensor) -> Tensor:
        said = self.inner.encode(images)
        mean: Tensor = said[0] if isinstance(said, tuple | list) and len(said) else said
        return mean

    @torch.no_grad()
    def _meet(self) -> None:
        """Ask about two images, and refuse what would go wrong later."""
        images = uniforms(0, torch.arange(2), stream="generator.meet", count=math.prod(self.shape))
        images = images.unflatten(1, self.shape)
        what = f"encode of {self.spec!r}, asked about images of shape {tuple(images.shape)},"
        try:
            codes, again = self._said(images), self._said(images)
        except Exception as error:
            raise UserError(f"{what} failed: {type(error).__name__}: {error}") from error
        if not isinstance(codes, Tensor) or codes.ndim < 2 or len(codes) != 2 or not codes.is_floating_point():
            given = tuple(codes.shape) if isinstance(codes, Tensor) else type(codes).__name__
            raise UserError(f"{what} gave {given}: expected floats (n, latent), or them and their log variance")
        if not torch.equal(codes, again):
            raise UserError(f"{what} gave two answers to one question: return the mean, and draw nothing")
        self.inside = tuple(codes.shape[1:])
        what = f"decode of {self.spec!r}, asked about codes of shape {tuple(codes.shape)},"
        try:
            made = self.decode(codes.flatten(1))
        except Exception as error:
            raise UserError(f"{what} failed: {type(error).__name__}: {error}") from error
        if not isinstance(made, Tensor) or tuple(made.shape) != tuple(images.shape):
            given = tuple(made.shape) if isinstance(made, Tensor) else type(made).__name__
            raise UserError(f"{what} gave {given}: expected images {tuple(images.shape)}")
        if not (made.isfinite().all() and float(made.min()) >= -SLACK and float(made.max()) <= 1 + SLACK):
            raise UserError(
                f"{what} gave pixels from {float(made.min()):.3g} to {float(made.max()):.3g}: expected [0, 1]; end it "
                "with a sigmoid, or scale what it gives"
            )


def open_own(parsed: Spec, spec: str, may: Permission, shape: Shape | None) -> Own:
    """The generator in a user's file, which is run. spec: what opens it again, in full."""
    if parsed.options:
        raise UserError(f"{spec!r}: a generator in a file takes no options")
    found: Any = may.run(parsed.name, parsed.argument)
    if not _is_generator(found) and callable(found):
        try:
            with beside(parsed.name):
                found = found()
        except Exception as error:
            raise UserError(f"{spec!r} failed: {type(error).__name__}: {error}") from error
    if not _is_generator(found):
        raise UserError(
            f"{spec!r} is {type(found).__name__}, without encode and decode: expected an object or module that has "
            "both, or a function that makes one"
        )
    if isinstance(found, nn.Module):
        found.eval().requires_grad_(False)
    takes = getattr(found, "shape", None) or shape
    if takes is None or len(takes) != 3 or not all(isinstance(side, int) and side > 0 for side in takes):
        raise UserError(
            f"{spec!r} does not say which images it takes (shape is {takes!r}): give it an attribute shape = "
            "(channels, height, width)"
        )
    weights = fingerprint(found) if isinstance(found, nn.Module) else type(found).__qualname__
    hashed = hashlib.sha256(f"{weights} {code_sha256(parsed.name)} {parsed.argument}".encode()).hexdigest()
    own = Own(found, spec, hashed, (takes[0], takes[1], takes[2]))
    said = getattr(found, "latent", own.latent)
    if said != own.latent:
        raise UserError(f"{spec!r} says latent = {said!r}, and its codes have {own.latent} numbers: mend one of them")
    return own


def _is_generator(found: Any) -> bool:
    """An object with both; a class is a function that makes one."""
    return not isinstance(found, type) and callable(getattr(found, "encode", None)) and callable(
        getattr(found, "decode", None)
    )  # fmt: skip
