"""Open a generator by its spec: a folder that training wrote, a user's own FILE.py:NAME, or hf:FOLDER."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from foible import specs
from foible.errors import UserError
from foible.generators import files
from foible.generators.base import Draws, Generator, Shape
from foible.generators.build import FAMILIES
from foible.generators.pixels import PIXELS, open_pixels
from foible.permission import NOTHING, Permission
from foible.spec_files import absolute


def open_generator(spec: str, *, may: Permission | None = None, shape: Shape | None = None) -> Generator:
    """The generator that `spec` names, on the CPU; one that encodes too.

    A folder that `foible generator train` wrote; `FILE.py:NAME`, an object or module with `encode` and `decode`, or a
    function that makes one; `hf:FOLDER`, an AutoencoderKL of diffusers.

    may: which code may be run. shape: of the images, for a generator that does not say which it takes.
    """
    found: Any = open_drawing(spec, may=may, shape=shape)
    if not hasattr(found, "encode"):
        raise UserError(
            f"the generator {spec!r} draws and does not encode: it has no code for an image that is there; take one of "
            "vae:N or vaegan:N"
        )
    encoding: Generator = found
    return encoding


def open_drawing(spec: str, *, may: Permission | None = None, shape: Shape | None = None) -> Draws:
    """The same, where a decoder is all it takes."""
    parsed = specs.parse(spec)
    if parsed.is_file:
        from foible.generators.own import open_own

        return open_own(parsed, absolute(spec), NOTHING if may is None else may, shape)
    if spec == PIXELS:
        return open_pixels(shape)
    if parsed.name == "hf":
        from foible.generators.huggingface import open_hf

        return open_hf(parsed.argument, absolute(spec), shape)
    if Path(spec).is_dir():
        return files.load_folder(Path(spec))
    if parsed.name in FAMILIES:
        raise UserError(
            f"{spec!r} is a kind of generator and not a trained one: `foible generator train {spec} --data DATA --out "
            "FOLDER` makes one; then give FOLDER"
        )
    raise UserError(
        f"there is no generator {spec!r}: expected a folder that `foible generator train` wrote, FILE.py:NAME with "
        "encode and decode, or hf:FOLDER with an AutoencoderKL of diffusers"
    )
