"""Reading whole files, gzipped or not, with a limit on what they may unpack to."""

from __future__ import annotations

import gzip
import io
import zlib
from pathlib import Path
from typing import BinaryIO, cast

from foible.disk import ordinary
from foible.errors import UserError

MOST_BYTES = 4 << 30  # of one unpacked file: the largest that is read here, CIFAR-10's, unpacks to 180 MB


class Unpacked:
    """A file opened for reading that may be gzipped; every way it can break is a UserError that names it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            raw = ordinary(path).open("rb")
        except OSError as error:
            raise UserError(f"{path} cannot be opened: {error.strerror or error}") from error
        # By its first bytes, not its name: both kinds are found under both names.
        packed = raw.peek(2)[:2] == b"\x1f\x8b" if isinstance(raw, io.BufferedReader) else False
        self._raw = raw
        self._file = cast(BinaryIO, gzip.GzipFile(fileobj=raw)) if packed else cast(BinaryIO, raw)

    def __enter__(self) -> Unpacked:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._raw.close()

    def read(self, size: int) -> bytes:
        """Up to `size` bytes: fewer only where the file ends."""
        try:
            return self._file.read(size)
        except (EOFError, zlib.error, gzip.BadGzipFile, OSError) as error:
            raise UserError(f"{self.path} is cut short or damaged ({error}): fetch or copy the file again") from error

    def rest(self) -> bytes:
        """All that is left, up to the limit."""
        body = self.read(MOST_BYTES + 1)
        if len(body) > MOST_BYTES:
            raise UserError(f"{self.path} unpacks to more than {MOST_BYTES >> 30} GiB: refused")
        return body
