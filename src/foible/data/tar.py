"""The members of a plain tar file: names and where their bytes are. Nothing is unpacked, and nothing but headers read.

Python's own tarfile stops without a word at a broken header, and keeps an object for each member.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

BLOCK = 512
MOST_NOTE = 1 << 20  # bytes of a note about the next member (long names): more is taken for damage
PACKED = {b"\x1f\x8b": "gzip", b"BZ": "bzip2", b"\xfd7": "xz", b"\x28\xb5": "zstd"}


class Member(NamedTuple):
    """A file within a tar: `size` bytes from `offset`."""

    name: bytes
    offset: int
    size: int


class Broken(ValueError):
    """The tar cannot be read on from here."""


class Packed(Broken):
    """It is a compressed file."""


def members(path: Path) -> Iterator[Member]:
    """The plain files in the tar, in order; folders, links and devices are passed over. Raises `Broken`."""
    with path.open("rb") as file:
        length = file.seek(0, 2)
        at, named, sized = 0, b"", -1
        while True:
            file.seek(at)
            header = file.read(BLOCK)
            if not header or header == bytes(BLOCK):  # the end: zeros, or nothing where somebody saved them
                if at == 0 and not header:
                    raise Broken("is empty")
                return
            size = _checked(header, at)
            kind = header[156:157]
            if kind in b"Lx" and size > MOST_NOTE:
                raise Broken(f"has a note of {size} bytes at byte {at}")
            if sized >= 0 and kind not in b"xg":
                size, sized = sized, -1
            start = at + BLOCK
            if start + size > length:
                raise Broken(f"is cut short: it ends at byte {length}, the member at byte {at} at {start + size}")
            if kind == b"L":  # GNU: the next member's name
                named = file.read(size).rstrip(b"\0")
            elif kind == b"x":  # POSIX: notes on the next member
                notes = _notes(file, size)
                named = notes.get(b"path", named)
                if re.fullmatch(rb"[0-9]{1,18}", notes.get(b"size", b"")):
                    sized = int(notes[b"size"])
            elif kind not in (b"K", b"g"):
                if kind in (b"0", b"\0", b"7"):
                    yield Member(named or _name(header), start, size)
                named = b""
            at = start + -(-size // BLOCK) * BLOCK


def _checked(header: bytes, at: int) -> int:
    """The size that a header tells, once its checksum is right."""
    packed = next((kind for begin, kind in PACKED.items() if header.startswith(begin)), "") if at == 0 else ""
    if packed:
        raise Packed(f"is compressed ({packed}): unpack it to a plain .tar first; images gain nothing by it")
    if len(header) < BLOCK:
        raise Broken(f"is cut short at byte {at}")
    told = _number(header[148:156], at)
    if told != sum(header) - sum(header[148:156]) + 8 * 32:
        raise _damaged(at)
    if header[124] & 0x80:  # sizes above 8 GiB are written in binary
        return int.from_bytes(header[125:136], "big")
    return _number(header[124:136], at)


def _number(text: bytes, at: int) -> int:
    """An octal number of a header."""
    text = text.strip(b" \0")
    if not re.fullmatch(rb"[0-7]*", text):
        raise _damaged(at)
    return int(text or b"0", 8)


def _damaged(at: int) -> Broken:
    return Broken("is no tar file" if at == 0 else f"has a broken header at byte {at}")


def _name(header: bytes) -> bytes:
    name = header[:100].partition(b"\0")[0]
    before = header[345:500].partition(b"\0")[0] if header[257:263] == b"ustar\0" else b""
    return before + b"/" + name if before else name


def _notes(file: BinaryIO, size: int) -> dict[bytes, bytes]:
    """POSIX notes: `LENGTH KEY=VALUE\\n`, the length being that of the whole."""
    body, notes = file.read(size), {}
    while body:
        told, _, _ = body.partition(b" ")
        if not re.fullmatch(rb"[0-9]{1,9}", told) or not 0 < int(told) <= len(body):
            break
        key, _, value = body[len(told) + 1 : int(told)].removesuffix(b"\n").partition(b"=")
        notes[key] = value
        body = body[int(told) :]
    return notes
