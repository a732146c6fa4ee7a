"""PNG bytes of many images, the same bytes every time.

Written out here because it is on the path of every trial: several times as fast as a general encoder for the small
images of the papers. Nothing here needs torch, so that the processes that help start quickly.
"""

from __future__ import annotations

import atexit
import os
import signal
import struct
import subprocess
import sys
import zlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from multiprocessing import parent_process
from queue import SimpleQueue
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from foible.processes import cores

SIGNATURE = b"\x89PNG\r\n\x1a\n"
END = b"\0\0\0\0IEND\xaeB`\x82"
PART = 200_000  # bytes of pixels that a thread encodes at a time: one photograph, or some hundred drawn digits
FEEDS = 500  # bytes of an image for each further thread: with fewer they only wait for the interpreter's lock
MANY = 10_000  # images from which on processes help, which have locks of their own
SHARE = 1_000_000  # bytes of pixels that a process is handed at a time
HELPER = "from foible.png import help_out; help_out()"

Pixels = npt.NDArray[np.uint8]
Helper = subprocess.Popen[bytes]
_Free = SimpleQueue[Helper]


def encode_png(image: Any) -> bytes:
    """One uint8 image (channels, height, width), grey or RGB, as PNG bytes."""
    return encode_pngs(np.asarray(image)[None])[0]


def encode_pngs(images: Pixels) -> list[bytes]:
    """uint8 images (n, channels, height, width), grey or RGB, as PNG bytes each. All cores take part, but not in a
    worker process, which has one for itself."""
    parts = _parts(images, PART)
    if len(parts) < 2 or parent_process() is not None:
        return [png for part in parts for png in _encode(part)]
    threads = min(len(parts), cores(), 1 + images[0].size // FEEDS)
    with ThreadPoolExecutor(threads) as pool:  # zlib lets go of the interpreter's lock
        return [png for done in pool.map(_encode, parts) for png in done]


def packed(images: Pixels) -> tuple[npt.NDArray[np.int32], bytes]:
    """The same, one after the other: how long each is (n,), and all of them. Many are shared out among processes."""
    crew, free = helpers() if len(images) >= MANY else ((), _Free())
    if not crew:
        made = encode_pngs(images)
        return np.array([len(png) for png in made], np.int32), b"".join(made)

    def encode(part: Pixels) -> tuple[npt.NDArray[np.int32], bytes]:
        helper = free.get()
        try:
            return _ask(helper, part)
        except (OSError, ValueError):  # it was ended by somebody
            made = _encode(part)
            return np.array([len(png) for png in made], np.int32), b"".join(made)
        finally:
            free.put(helper)

    with ThreadPoolExecutor(len(crew)) as pool:
        done = list(pool.map(encode, _parts(images, SHARE)))
    return np.concatenate([lengths for lengths, _ in done]), b"".join(data for _, data in done)


@cache
def helpers() -> tuple[tuple[Helper, ...], _Free]:
    """Processes that encode, and those of them that nobody has asked for anything: one for each core but one; none in a
    worker process, or where cores are few. They end with this process. Asking for them starts them."""
    free, many = _Free(), cores() - 1
    if many < 3 or parent_process() is not None:
        return (), free
    command, environment = [sys.executable, "-P", "-c", HELPER], os.environ | {"OMP_NUM_THREADS": "1"}
    crew = tuple(
        subprocess.Popen(  # one that cannot start is done without, and in silence
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        for _ in range(many)
    )
    for helper in crew:
        free.put(helper)
    atexit.register(dismiss, crew)
    return crew, free


def dismiss(crew: Sequence[Helper]) -> None:
    """Closed pipes end them."""
    for helper in crew:
        for pipe in (helper.stdin, helper.stdout):
            if pipe is not None:
                with suppress(OSError):  # it is gone already
                    pipe.close()
    for helper in crew:
        helper.wait()


def help_out() -> None:
    """What a helper does: encode what it is handed until nobody hands it anything."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is meant for the one who asks
    while True:
        head = sys.stdin.buffer.read(32)
        if len(head) < 32:
            return
        shape = struct.unpack("<4q", head)
        part = np.frombuffer(_exactly(sys.stdin.buffer, int(np.prod(shape))), np.uint8).reshape(shape)
        made = _encode(part)
        sys.stdout.buffer.write(np.array([len(png) for png in made], np.int32).tobytes() + b"".join(made))
        sys.stdout.buffer.flush()


def _ask(helper: Helper, part: Pixels) -> tuple[npt.NDArray[np.int32], bytes]:
    assert helper.stdin is not None
    assert helper.stdout is not None
    helper.stdin.write(struct.pack("<4q", *part.shape) + np.ascontiguousarray(part).tobytes())
    helper.stdin.flush()
    lengths = np.frombuffer(_exactly(helper.stdout, 4 * len(part)), np.int32)
    return lengths, _exactly(helper.stdout, int(lengths.sum()))


def _exactly(pipe: IO[bytes], count: int) -> bytes:
    data = pipe.read(count)
    if len(data) < count:
        raise ValueError("the process at the other end is gone")
    return data


def _parts(images: Pixels, size: int) -> list[Pixels]:
    """Images of about so many bytes together."""
    each = max(1, size // max(1, int(np.prod(images.shape[1:]))))
    return [images[begin : begin + each] for begin in range(0, len(images), each)]


def _encode(images: Pixels) -> list[bytes]:
    channels, height, width = images.shape[1:]
    if channels not in (1, 3):
        raise ValueError(f"images have {channels} channels: a PNG here holds 1 (grey) or 3 (RGB)")
    header = struct.pack(">IIBBBBB", width, height, 8, 2 if channels == 3 else 0, 0, 0, 0)
    start = SIGNATURE + _chunk(b"IHDR", header)
    rows = np.zeros((len(images), height, 1 + width * channels), np.uint8)  # a zero before each row: no filter
    rows[:, :, 1:] = images.transpose(0, 2, 3, 1).reshape(len(images), height, -1)
    return [start + _chunk(b"IDAT", _deflate(image)) + END for image in rows]


def _deflate(data: Pixels) -> bytes:
    """Runs only: for drawn images as small as the general way and a third faster, for photographs nearly so."""
    packer = zlib.compressobj(3, strategy=zlib.Z_RLE)
    return packer.compress(data.data) + packer.flush()


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(body, zlib.crc32(kind)))
