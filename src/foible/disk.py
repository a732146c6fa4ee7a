"""Files that are whole or absent, whatever happens in between."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path

from foible.errors import UserError


def write_atomically(file: Path, data: bytes) -> None:
    """The whole file or nothing: written beside, synced, renamed."""
    beside = file.with_name(f".{file.name}.{os.getpid()}.tmp")
    try:
        with beside.open("wb") as handle:
            handle.write(data)
            handle.flush()
            os.fsync(handle.fileno())
        beside.replace(file)
    except BaseException as error:
        with suppress(OSError):
            beside.unlink()
        if not isinstance(error, OSError):
            raise
        raise UserError(
            f"cannot write {file}: {error.strerror or error} ({_free(file.parent)}): make room and run the same "
            "command again; what was finished before is safe and will not be done twice"
        ) from error


def write_with_folder(file: Path, data: bytes) -> None:
    """The same, making the file's folder where it is missing."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot make the folder {str(file.parent)!r}: {error.strerror or error}") from error
    write_atomically(file, data)


def _free(folder: Path) -> str:
    try:
        return f"{shutil.disk_usage(folder).free // 2**20} MiB free there"
    except OSError:
        return "its folder is gone"
