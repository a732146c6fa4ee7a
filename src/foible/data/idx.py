"""MNIST and Fashion-MNIST: the IDX files of LeCun et al. (1998), gzipped or not."""

from __future__ import annotations

import math
import struct
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from foible.data.catalogue import KNOWN, missing
from foible.data.dataset import Dataset, check_labels
from foible.data.files import MOST_BYTES, Unpacked
from foible.data.places import first_file
from foible.errors import UserError

PREFIX = {"train": "train", "test": "t10k"}


def load_idx(spec: str, argument: str, split: str, quiet: bool) -> Dataset:
    """`mnist` and `fashion-mnist`: 60,000 and 10,000 grey images of 28×28."""
    del argument, quiet
    known = KNOWN[spec]
    folder = known.find()
    if folder is None:
        raise missing(spec)
    image_file, label_file = (idx_file(folder, PREFIX[split], kind) for kind in ("images-idx3", "labels-idx1"))
    images = read_idx(image_file, 3)
    labels = read_idx(label_file, 1)
    if len(images) != len(labels):
        raise UserError(
            f"{image_file} holds {len(images)} images but {label_file} holds {len(labels)} labels: "
            "expected one label an image; fetch both files from one source"
        )
    checked = labels.astype(np.int64)
    check_labels(checked, len(known.classes), str(label_file))
    return Dataset(spec, split, torch.from_numpy(images[:, None]), torch.from_numpy(checked), known.classes)


def names_of(prefix: str, kind: str) -> tuple[str, ...]:
    """The file names in use for `train` and `images-idx3`, say."""
    plain = f"{prefix}-{kind}-ubyte"
    dotted = plain.replace("-idx", ".idx")
    return plain, plain + ".gz", dotted, dotted + ".gz"


def idx_file(folder: Path, prefix: str, kind: str) -> Path:
    names = names_of(prefix, kind)
    found = first_file(folder, names)
    if found is None:
        raise UserError(f"{folder} holds neither {names[0]} nor {names[1]}: put one of them there")
    return found


def read_idx(path: Path, dims: int) -> npt.NDArray[np.uint8]:
    """An IDX file of unsigned bytes with `dims` dimensions; its header must agree with what follows."""
    with Unpacked(path) as file:
        header = file.read(4 + 4 * dims)
        if len(header) < 4 + 4 * dims or header[:4] != bytes((0, 0, 8, dims)):
            raise UserError(
                f"{path} begins with {header[:4].hex(' ') or 'nothing'}: expected 00 00 08 {dims:02x}, "
                f"an IDX file of bytes with {dims} dimension(s); fetch the file again"
            )
        shape = struct.unpack(f">{dims}I", header[4:])
        size = math.prod(shape)
        if size > MOST_BYTES:
            raise UserError(f"{path} says it holds {shape} bytes, more than {MOST_BYTES >> 30} GiB: refused")
        body = file.read(size + 1)  # one more than is due: shows what is left over, and checks the gzip's CRC
    if len(body) != size:
        more = "more" if len(body) > size else f"{len(body)}"
        raise UserError(f"{path} says it holds {shape} = {size} bytes and holds {more}: fetch or copy the file again")
    # A bytearray, so that the tensor made from it may be written to.
    return np.frombuffer(bytearray(body), np.uint8).reshape(shape)
