"""`get`, against a server on this machine: no test here reaches out."""

from __future__ import annotations

import hashlib
import io
import tarfile
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from data_files import grey, write_idx

from foible import data
from foible.data import catalogue, download
from foible.errors import UserError


class Server(ThreadingHTTPServer):
    """Serves `bodies` by name. `short` are cut off half way, `elsewhere` is where redirects point."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.bodies: dict[str, bytes] = {}
        self.short: set[str] = set()
        self.elsewhere = ""
        self.asked: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/files"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        name = self.path.rpartition("/")[2]
        self.server.asked.append(name)
        if self.server.elsewhere:
            self.send_response(302)
            self.send_header("Location", self.server.elsewhere + name)
            self.end_headers()
        elif name in self.server.bodies:
            body = self.server.bodies[name]
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[: len(body) // 2] if name in self.server.short else body)
        else:
            self.send_error(404)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as it:
        thread = threading.Thread(target=it.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield it
        it.shutdown()
        thread.join()


@pytest.fixture
def tiny(server: Server, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The server offers an MNIST of six images, with its right checksums; returns where it is to go."""
    for prefix in ("train", "t10k"):
        write_idx(tmp_path / "made", grey(6), range(6), prefix)
    server.bodies = {file.name: file.read_bytes() for file in (tmp_path / "made").iterdir()}
    files = tuple((name, hashlib.sha256(body).hexdigest()) for name, body in sorted(server.bodies.items()))
    known = replace(catalogue.KNOWN["mnist"], files=files, sources=(server.url,))
    monkeypatch.setitem(catalogue.KNOWN, "mnist", known)
    return home / "mnist"


def names(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


def test_get_puts_whole_files_in_place_and_load_reads_them(tiny: Path, server: Server) -> None:
    assert data.get("mnist", quiet=True) == tiny
    assert names(tiny) == sorted(server.bodies)
    assert data.load("mnist").labels.tolist() == list(range(6))
    asked = len(server.asked)
    assert data.get("mnist", quiet=True) == tiny  # nothing to do
    assert len(server.asked) == asked


def test_force_fetches_again_and_mends_a_broken_file(tiny: Path) -> None:
    data.get("mnist", quiet=True)
    (tiny / "train-labels-idx1-ubyte.gz").write_bytes(b"broken")
    data.get("mnist", force=True, quiet=True)
    assert len(data.load("mnist")) == 6


def test_a_wrong_checksum_leaves_nothing_behind(tiny: Path, server: Server) -> None:
    server.bodies["train-labels-idx1-ubyte.gz"] += b"!"
    with pytest.raises(UserError, match=r"train-labels-idx1-ubyte\.gz.*SHA-256 \w+, expected \w+"):
        data.get("mnist", quiet=True)
    assert "train-labels-idx1-ubyte.gz" not in names(tiny)
    assert not [name for name in names(tiny) if name.endswith(".part")]


def test_an_interrupted_transfer_leaves_nothing_behind_and_goes_on_next_time(tiny: Path, server: Server) -> None:
    server.short = {"train-images-idx3-ubyte.gz"}
    with pytest.raises(UserError, match=r"train-images-idx3-ubyte\.gz.*broke off after"):
        data.get("mnist", quiet=True)
    assert "train-images-idx3-ubyte.gz" not in names(tiny)
    assert not [name for name in names(tiny) if name.endswith(".part")]
    server.short, server.asked = set(), []
    data.get("mnist", tiny, quiet=True)
    assert "t10k-images-idx3-ubyte.gz" not in server.asked  # whole already
    assert names(tiny) == sorted(server.bodies)


def test_the_next_source_is_tried(tiny: Path, server: Server) -> None:
    data.get("mnist", sources=(server.url.replace("/files", ":"), server.url), quiet=True)
    assert names(tiny) == sorted(server.bodies)


def test_offline_says_what_to_download_and_where_to_put_it(tiny: Path, server: Server) -> None:
    port = server.server_address[1]
    server.shutdown()
    server.socket.close()
    with pytest.raises(UserError, match=r"download .*train-images-idx3-ubyte.gz.* put them into") as caught:
        data.get("mnist", quiet=True)
    assert f"127.0.0.1:{port}" in str(caught.value)
    assert str(tiny) in str(caught.value)


def test_only_https_and_no_way_round_by_redirect(tiny: Path, server: Server) -> None:
    for source in ("http://example.invalid/", "ftp://example.invalid/", "file:///etc/"):
        with pytest.raises(UserError, match="not https"):
            data.get("mnist", sources=(source,), quiet=True)
    for elsewhere in ("http://example.invalid/", "ftp://example.invalid/"):
        server.elsewhere = elsewhere
        with pytest.raises(UserError, match="which is not https"):
            data.get("mnist", quiet=True)
    assert names(tiny) == []


def test_every_published_source_is_https_and_every_file_has_a_checksum() -> None:
    for known in catalogue.KNOWN.values():
        assert all(source.startswith("https://") for source in known.sources)
        assert all(len(digest) == 64 and int(digest, 16) for _, digest in known.files)


def test_a_flood_is_cut_off(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "MOST_BYTES", 10)
    with pytest.raises(UserError, match="sends more than"):
        data.get("mnist", quiet=True)
    assert names(tiny) == []


@pytest.mark.usefixtures("home")
def test_unknown_and_bundled_names() -> None:
    with pytest.raises(UserError, match="'mnits' cannot be downloaded; did you mean 'mnist'"):
        data.get("mnits")
    with pytest.raises(UserError, match="needs no download"):
        data.get("digits")


def test_a_folder_that_cannot_be_written(tiny: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(UserError, match="cannot write mnist to"):
        data.get("mnist", tmp_path / "file" / "below", quiet=True)
    assert not tiny.exists()


def tar_of(members: dict[str, bytes], links: dict[str, str] | None = None) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for name, body in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(body)
            tar.addfile(info, io.BytesIO(body))
        for name, goal in (links or {}).items():
            info = tarfile.TarInfo(name)
            info.type, info.linkname = tarfile.SYMTYPE, goal
            tar.addfile(info)
    return out.getvalue()


BATCHES = {
    f"cifar-10-batches-bin/{n}.bin": bytes(3073) for n in [*(f"data_batch_{k}" for k in range(1, 6)), "test_batch"]
}


def test_cifar_is_unpacked_and_the_archive_goes(server: Server, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    body = tar_of(BATCHES)
    files = (("cifar-10-binary.tar.gz", hashlib.sha256(body).hexdigest()),)
    monkeypatch.setitem(catalogue.KNOWN, "cifar10", replace(catalogue.KNOWN["cifar10"], files=files))
    server.bodies = {"cifar-10-binary.tar.gz": body}
    data.get("cifar10", sources=(server.url,), quiet=True)
    assert names(home / "cifar10") == ["cifar-10-batches-bin"]
    assert len(data.load("cifar10")) == 5


def test_unpacking_takes_the_expected_files_and_nothing_else(tmp_path: Path) -> None:
    hostile = {"../evil": b"x", "/tmp/evil": b"x", "cifar-10-batches-bin/other": b"x"}
    archive = tmp_path / "in" / "a.tar.gz"
    archive.parent.mkdir()
    archive.write_bytes(tar_of(hostile | BATCHES, {"cifar-10-batches-bin/batches.meta.txt": "/etc/passwd"}))
    download.unpack(archive, tmp_path / "in" / "out", download.CIFAR_MEMBERS)
    assert names(tmp_path) == ["in"]
    assert names(tmp_path / "in" / "out") == ["cifar-10-batches-bin"]
    assert names(tmp_path / "in" / "out" / "cifar-10-batches-bin") == sorted(n.split("/")[1] for n in BATCHES)


@pytest.mark.parametrize("how", ["cut", "lacks", "large"])
def test_a_wrong_archive_is_named(tmp_path: Path, how: str) -> None:
    body = tar_of(dict(list(BATCHES.items())[1:]) if how == "lacks" else BATCHES)
    (tmp_path / "a.tar.gz").write_bytes(body[:-30] if how == "cut" else body)
    limits = dict.fromkeys(BATCHES, 100 if how == "large" else 5000)
    with pytest.raises(UserError, match=r"a\.tar\.gz.*(damaged|lacks|larger)"):
        download.unpack(tmp_path / "a.tar.gz", tmp_path / "out", limits)
