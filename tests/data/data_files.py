"""Small data files made on the spot."""

from __future__ import annotations

import gzip
import io
import struct
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image


def grey(n: int) -> np.ndarray:
    """n images of 5×4 (height × width), no two alike."""
    return (np.arange(n * 20) % 251).astype(np.uint8).reshape(n, 5, 4)


def idx_bytes(array: np.ndarray) -> bytes:
    return struct.pack(f">4B{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.tobytes()


def write_idx(
    folder: Path, images: np.ndarray, labels: Sequence[int], prefix: str = "train", packed: bool = True
) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, array in (("images-idx3", images), ("labels-idx1", np.array(labels, np.uint8))):
        body = idx_bytes(array)
        file = folder / f"{prefix}-{name}-ubyte{'.gz' if packed else ''}"
        file.write_bytes(gzip.compress(body) if packed else body)


def picture(colour: Any = 0, mode: str = "RGB", size: tuple[int, int] = (4, 3), kind: str = "PNG", **how: Any) -> bytes:
    """One encoded image; `size` is (width, height)."""
    out = io.BytesIO()
    Image.new(mode, size, colour).save(out, kind, **how)
    return out.getvalue()


def write_folder(root: Path, files: dict[str, bytes]) -> Path:
    for name, body in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(body)
    return root


def write_parquet(
    path: Path, images: Sequence[Any], labels: Sequence[Any], column: str = "image", metadata: Any = None
) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    rows = [i if i is None or isinstance(i, dict) else {"bytes": i, "path": None} for i in images]
    table = pa.table({column: pa.array(rows, kind), "label": pa.array(labels)})
    pq.write_table(table.replace_schema_metadata(metadata), path)
    return path


def write_tar(path: Path, members: Sequence[tuple[str, bytes]], style: int = tarfile.USTAR_FORMAT) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w", format=style) as tar:
        for name, body in members:
            info = tarfile.TarInfo(name)
            info.size = len(body)
            tar.addfile(info, io.BytesIO(body))
    return path
