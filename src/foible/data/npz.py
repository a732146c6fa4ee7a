"""`npz:PATH`: NumPy arrays of images and labels, saved with `numpy.savez`."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from foible.data.dataset import (
    Dataset,
    UnsplitError,
    check_classes,
    check_labels,
    hold_out,
    numbered_classes,
    with_option,
)
from foible.data.decode import Pixels
from foible.data.options import share
from foible.data.places import given_path
from foible.disk import ordinary
from foible.errors import UserError
from foible.text import shown

Array = npt.NDArray[Any]

LARGE = 256 << 20  # bytes of an array, from which on it may not be packed more than so many times:
DENSEST = 200

PAIRS = {
    "train": (("x_train", "y_train"), ("train_images", "train_labels"), ("images", "labels")),
    "test": (("x_test", "y_test"), ("test_images", "test_labels")),
}


def load_npz(spec: str, argument: str, split: str, quiet: bool, *, layout: str = "", test: str = "") -> Dataset:
    """`npz:PATH?layout=NHWC&test=0.2`. Images are uint8, or floats in [0, 1] that are rounded to 8 bits."""
    del quiet
    part = share(spec, test)
    if layout.upper() not in ("", "NHWC", "NCHW"):
        raise UserError(f"{spec}: layout is {layout!r}: expected NHWC or NCHW")
    path = given_path(spec, argument)
    arrays = _open(ordinary(path), spec)
    pairs = {name: _pair(arrays, name) for name in PAIRS}
    own_test = pairs["test"] is not None
    if pairs["train"] is None and (split == "train" or not own_test):
        raise UserError(
            f"{spec} holds the arrays {', '.join(map(shown, arrays)) or 'none'}: expected images and labels, "
            "or x_train, y_train, x_test and y_test"
        )
    if own_test and part is not None:
        raise UserError(f"{spec} has its own test split: leave out test=")
    if split == "test" and not own_test and part is None:
        raise UnsplitError(spec)
    chosen = pairs[split] if own_test or split == "train" else pairs["train"]
    assert chosen is not None
    images, raw = _images(chosen[0], spec, layout.upper()), chosen[1]
    everything = [pair[1] for pair in pairs.values() if pair is not None]
    labels, classes = _labels(raw, everything, arrays.get("classes"), spec)
    if len(images) != len(labels):
        raise UserError(f"{spec}: {len(images)} images and {len(labels)} labels: expected one label an image")
    if part is not None:
        held = hold_out(labels, part)
        rows = np.flatnonzero(held if split == "test" else ~held)
        images, labels = images[rows], labels[rows]
    return Dataset(spec, split, torch.from_numpy(images), torch.from_numpy(labels), classes)


def _open(path: Path, spec: str) -> dict[str, Array]:
    """All arrays by lower-case name. Pickled ones are refused: unpickling runs whatever the file says."""
    try:
        with path.open("rb") as opened:  # by hand: numpy leaves a broken file open
            file = np.load(opened, allow_pickle=False)
            if isinstance(file, np.ndarray):
                raise UserError(f"{spec} is a single array: expected an .npz with images and labels")
            _check_members(file, spec)
            arrays = {name.lower(): file[name] for name in file.files}
            odd = next((name for name, array in arrays.items() if not isinstance(array, np.ndarray)), None)
            if odd is not None:
                raise UserError(f"{spec} holds {shown(odd)!r}, which is no array: save arrays alone with numpy.savez")
            return arrays
    except UserError:
        raise
    except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile) as error:
        if "pickle" in str(error).lower():
            raise UserError(
                f"{spec} is or holds pickled objects: refused, because unpickling runs code from the file. "
                "Save plain arrays with numpy.savez(path, images=..., labels=...)"
            ) from error
        raise UserError(f"{spec} cannot be read as .npz: {shown(error)}") from error
    except Exception as error:  # zlib.error and NotImplementedError, among others: the bytes may be anything
        raise UserError(f"{spec} cannot be read as .npz: {type(error).__name__}: {shown(error)}") from error


def _check_members(file: Any, spec: str) -> None:
    """Refuse two arrays of one name, of which we would take either, and one that is nearly all packing."""
    seen: set[str] = set()
    for member in file.zip.infolist():
        name = member.filename.removesuffix(".npy").lower()
        if name in seen:
            raise UserError(
                f"{spec} holds two arrays called {shown(name)!r} (in lower case): expected one of each name"
            )
        seen.add(name)
        if member.file_size > max(LARGE, DENSEST * member.compress_size):
            raise UserError(
                f"{spec}: {shown(member.filename)!r} would unpack from {member.compress_size} to {member.file_size} "
                "bytes: taken for a bomb; where it is none, save it with numpy.savez, which does not pack"
            )


def _pair(arrays: dict[str, Array], split: str) -> tuple[Array, Array] | None:
    for images, labels in PAIRS[split]:
        if images in arrays and labels in arrays:
            return arrays[images], arrays[labels]
    return None


def _images(array: Array, spec: str, layout: str) -> Pixels:
    """The images as uint8 (n, channels, height, width)."""
    if array.dtype.kind == "f":
        with np.errstate(invalid="ignore"):
            inside = bool(((array >= 0) & (array <= 1)).all())
        if not inside:
            numbers = array[np.isfinite(array)]
            span = f"from {numbers.min():g} to {numbers.max():g}" if numbers.size else "without a finite number"
            raise UserError(
                f"{spec}: images are {array.dtype} {span}: expected "
                "floats in [0, 1] without NaN, or uint8; divide by 255, or save them with .astype('uint8')"
            )
        array = np.rint(array.astype(np.float32) * 255).astype(np.uint8)
    elif array.dtype != np.uint8:
        raise UserError(f"{spec}: images are {array.dtype}: expected uint8, or floats in [0, 1]")
    if array.ndim == 3:
        return np.ascontiguousarray(array[:, None])
    if array.ndim != 4:
        raise UserError(
            f"{spec}: images have the shape {array.shape}: expected (n, height, width), "
            "(n, height, width, channels) or (n, channels, height, width)"
        )
    first, last = array.shape[1] in (1, 3), array.shape[3] in (1, 3)
    if first and last and not layout:
        raise UserError(
            f"{spec}: images have the shape {array.shape}, so channels may come first or last: write "
            f"{with_option(spec, 'layout=NHWC')} or layout=NCHW"
        )
    chosen = layout or ("NCHW" if first else "NHWC")
    if not (first if chosen == "NCHW" else last):
        raise UserError(f"{spec}: images have the shape {array.shape}: expected 1 or 3 channels, first or last")
    return np.ascontiguousarray(array if chosen == "NCHW" else array.transpose(0, 3, 1, 2))


def _labels(
    raw: Array, everything: list[Array], names: Array | None, spec: str
) -> tuple[npt.NDArray[np.int64], tuple[str, ...]]:
    """Labels as numbers, and the class names: given, or the labels themselves over both splits."""
    if any(array.ndim == 2 and array.shape[1] > 1 for array in (raw, *everything)):
        raise UserError(f"{spec}: labels have the shape {raw.shape}: expected (n,); for one-hot rows save argmax(1)")
    flat = [array.reshape(-1) for array in everything]
    labels = raw.reshape(-1)
    try:
        classes = tuple(str(name) for name in names.reshape(-1)) if names is not None else ()
        flat = [np.array([str(name) for name in array]) if array.dtype.kind == "U" else array for array in flat]
    except (ValueError, SystemError) as error:  # NumPy's text can hold numbers that are no characters
        raise UserError(f"{spec}: class names or labels are no text: {shown(error)}") from error
    if labels.dtype.kind == "U":
        classes = classes or tuple(sorted({str(name) for array in flat for name in array}))
        check_classes(classes, spec)
        number = {name: k for k, name in enumerate(classes)}
        unknown = next((row for row, name in enumerate(labels) if str(name) not in number), None)
        if unknown is not None:
            raise UserError(f"{spec}: row {unknown} has the label {shown(labels[unknown])!r}, which is not in classes")
        return np.array([number[str(name)] for name in labels], np.int64), classes
    if labels.dtype.kind not in "iu":
        raise UserError(f"{spec}: labels are {labels.dtype}: expected whole numbers or text")
    if not classes:
        for array in flat:
            classes = max(classes, numbered_classes(array.astype(np.int64), spec), key=len)
    check_classes(classes, spec)
    whole = labels.astype(np.int64)
    check_labels(whole, len(classes), spec)
    return whole, classes
