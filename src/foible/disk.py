"""Files that are whole or absent, whatever happens in between."""

from __future__ import annotations

import os
import re
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from foible.errors import UserError

_LEFT = re.compile(r"\..+\.([0-9]{1,9})\.tmp", re.DOTALL)
_swept: set[Path] = set()  # folders that this process has cleared


def ordinary(file: Path) -> Path:
    """The same path, if it is an ordinary file: a pipe or a device would hang, or never end."""
    if file.exists() and not file.is_file():
        what = "a folder" if file.is_dir() else "a pipe, a device or the like"
        raise UserError(f"{file} is {what}: expected an ordinary file")
    return file


def write_atomically(file: Path, data: bytes) -> None:
    """The whole file or nothing: written beside, synced, renamed, and the folder synced."""
    beside = file.with_name(f".{file.name}.{os.getpid()}.tmp")
    _sweep(file.parent)
    try:
        beside.unlink(missing_ok=True)
        with beside.open("xb") as handle:  # anew, so that a link that somebody left there is not followed
            handle.write(data)
            handle.flush()
            os.fsync(handle.fileno())
        beside.replace(file)
        _sync_folder(file.parent)
    except BaseException as error:
        with suppress(OSError):
            beside.unlink()
        if not isinstance(error, OSError):
            raise
        raise UserError(
            f"cannot write {file}: {error.strerror or error} ({_free(file.parent)}): make room and run the same "
            "command again; what was finished before is safe and will not be done twice"
        ) from error


@contextmanager
def held(file: Path, doing: str) -> Iterator[None]:
    """Hold a lock; another process gets a named error. The system frees it when the holder dies.

    doing: what the other process is at, for that error.
    """
    if file.is_symlink() or (not file.is_file() and file.exists()):  # taking it would empty what it leads to
        raise UserError(f"{file} is no ordinary file: delete it, or give another --out")
    lock = FileLock(file)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise UserError(f"another process is {doing}: wait for it, or give another --out") from None
    except (OSError, NotImplementedError) as error:
        why = getattr(error, "strerror", None) or error
        raise UserError(
            f"cannot lock {str(file.parent)!r} against other processes ({why}): give an --out that can be written, on "
            "a disk that knows locks"
        ) from error
    try:
        yield
    finally:
        lock.release()


def write_with_folder(file: Path, data: bytes) -> None:
    """The same, making the file's folder where it is missing."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot make the folder {str(file.parent)!r}: {error.strerror or error}") from error
    write_atomically(file, data)


def _sync_folder(folder: Path) -> None:
    """A rename outlives a power cut only once its folder is on disk; some systems cannot be asked for that."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _sweep(folder: Path) -> None:
    """Clear away what killed processes left half-written in a folder, once a process. A file that is still growing may
    be written by another machine, where its process has another number: it stays for a minute."""
    if folder in _swept:
        return
    _swept.add(folder)
    with suppress(OSError):
        for left in folder.glob(".*.tmp"):
            number = _LEFT.fullmatch(left.name)
            if number and not _alive(int(number[1])) and time.time() - left.lstat().st_mtime > 60:
                left.unlink()


def _alive(process: int) -> bool:
    if os.name == "nt":  # to ask there is to end it
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


def _free(folder: Path) -> str:
    try:
        return f"{shutil.disk_usage(folder).free // 2**20} MiB free there"
    except OSError:
        return "its folder is gone"


def cache_folder() -> Path:
    """The user's cache folder, by the custom of each system."""
    if sys.platform == "win32":
        home = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        home = Path.home() / "Library" / "Caches"
    else:
        home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "foible"
