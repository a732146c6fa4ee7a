"""`foible data get NAME`: fetch a data set into FOIBLE_DATA or the cache, checked against its SHA-256."""

from __future__ import annotations

import hashlib
import http.client
import os
import shutil
import tarfile
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

from foible.data.catalogue import KNOWN, Known
from foible.data.places import data_folder
from foible.disk import cache_folder
from foible.errors import UserError
from foible.progress import progress
from foible.text import did_you_mean

TIMEOUT = 30  # seconds without a byte
MOST_BYTES = 512 << 20  # of one download: the largest known is 170 MB
CIFAR_MEMBERS = {
    f"cifar-10-batches-bin/{name}": size
    for name, size in (
        *((f"data_batch_{k}.bin", 30_730_000) for k in range(1, 6)),
        ("test_batch.bin", 30_730_000),
        ("batches.meta.txt", 1 << 10),
    )
}


class _Failed(Exception):
    """One source did not work out; the next may."""


def get(
    name: str,
    folder: str | Path | None = None,
    *,
    sources: Sequence[str] | None = None,
    force: bool = False,
    quiet: bool = False,
) -> Path:
    """Download the data set `name` and return its folder; does nothing where it is found already.

    It goes into `folder`, else FOIBLE_DATA/name, else the user's cache folder. `sources` are https URLs to
    take the files from instead of the usual ones (the checksums stay); `force` fetches what is there again.
    """
    known = _known(name)
    if known.name == "digits":
        raise UserError("'digits' comes with scikit-learn and needs no download: use it as it is")
    found = known.find()
    if found is not None and folder is None and not force:
        return found
    target = Path(folder).expanduser() if folder is not None else (data_folder() or cache_folder()) / known.name
    try:
        target.mkdir(parents=True, exist_ok=True)
        for file, digest in known.files:
            if force or not _is(target / file, digest):
                _fetch(known, file, digest, target, sources or known.sources, quiet)
            if file.endswith(".tar.gz"):
                unpack(target / file, target, CIFAR_MEMBERS)
                (target / file).unlink()
    except OSError as error:
        raise UserError(
            f"cannot write {name} to {target} ({error.strerror or error}): make room or set FOIBLE_DATA to "
            "a folder that you can write to"
        ) from error
    return target


def _known(name: str) -> Known:
    if name not in KNOWN:
        fetched = [known for known, about in KNOWN.items() if about.files]
        raise UserError(
            f"{name!r} cannot be downloaded{did_you_mean(name.lower(), fetched)}; known are {', '.join(fetched)}"
        )
    return KNOWN[name]


def _is(path: Path, digest: str) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == digest


def _fetch(known: Known, file: str, digest: str, target: Path, sources: Sequence[str], quiet: bool) -> None:
    """One file from the first source that delivers it whole. Until then nothing stands under its name."""
    reasons = []
    for source in sources:
        url = source.rstrip("/") + "/" + file
        try:
            with _part(target / file) as part:
                _download(url, part, digest, quiet)
            return
        except _Failed as error:
            reasons.append(f"{url}: {error}")
    wanted = ", ".join(name for name, _ in known.files)
    then = ", unpacked," if file.endswith(".tar.gz") else ""
    raise UserError(
        f"{file} could not be downloaded ({'; '.join(reasons)}). Without a connection, download {wanted} "
        f"from {' or '.join(known.sources)} on another machine and put them{then} into {target}"
    )


@contextmanager
def _part(path: Path) -> Iterator[IO[bytes]]:
    """A temporary file beside `path` that takes its name once it is whole, and else goes away."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _allowed(url: str) -> bool:
    """https, or this very machine."""
    parts = urlsplit(url)
    return parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in ("127.0.0.1", "::1", "localhost"))


class _Redirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, req: Any, fp: Any, code: Any, msg: Any, headers: Any, newurl: str) -> Any:
        if not _allowed(newurl):
            raise _Failed(f"sends on to {newurl}, which is not https")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _download(url: str, out: IO[bytes], digest: str, quiet: bool) -> None:
    if not _allowed(url):
        raise _Failed("not https")
    request = urllib.request.Request(url, headers={"User-Agent": "foible"})
    seen, sha = 0, hashlib.sha256()
    try:
        with urllib.request.build_opener(_Redirects).open(request, timeout=TIMEOUT) as answer:
            length = int(answer.headers.get("Content-Length") or 0)
            with progress(f"Downloading {url.rpartition('/')[2]}", max(length >> 10, 1), quiet=quiet) as bar:
                while piece := answer.read(1 << 18):
                    seen += len(piece)
                    if seen > MOST_BYTES:
                        raise _Failed(f"sends more than {MOST_BYTES >> 20} MiB")
                    sha.update(piece)
                    out.write(piece)
                    bar.advance(len(piece) >> 10)
    except urllib.error.HTTPError as error:
        error.close()
        raise _Failed(f"answered {error.code} {error.reason}") from error
    except urllib.error.URLError as error:
        raise _Failed(f"cannot be reached, {error.reason}") from error
    except (http.client.HTTPException, TimeoutError, ConnectionError, ValueError) as error:
        raise _Failed(f"broke off after {seen} bytes ({type(error).__name__})") from error
    if seen < length:
        raise _Failed(f"broke off after {seen} of {length} bytes")
    if sha.hexdigest() != digest:
        raise _Failed(f"sent a file with the SHA-256 {sha.hexdigest()}, expected {digest}")


def unpack(archive: Path, target: Path, members: dict[str, int]) -> None:
    """The regular files named in `members` (name: most bytes) out of a tar.gz, and nothing else.

    No path from the archive is used for writing: each file goes to the place that its expected name gives.
    """
    due = dict(members)
    try:
        with tarfile.open(archive, "r:gz") as tar:
            for member in tar:
                if member.name not in due or not member.isreg():
                    continue
                if member.size > due.pop(member.name):
                    raise UserError(f"{archive}: {member.name} is larger than it should be: fetch it again")
                source = tar.extractfile(member)
                assert source is not None
                place = target / member.name
                place.parent.mkdir(parents=True, exist_ok=True)
                with source, _part(place) as part:
                    shutil.copyfileobj(source, part)
    except (tarfile.TarError, EOFError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:  # the disk's, not the archive's
            raise
        raise UserError(f"{archive} is cut short or damaged ({error}): fetch it again") from error
    due.pop("cifar-10-batches-bin/batches.meta.txt", None)
    if due:
        raise UserError(f"{archive} lacks {', '.join(due)}: fetch it again")
