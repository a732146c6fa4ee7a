from __future__ import annotations

import io
import subprocess
import threading
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

import foible.png
from foible.images import decode_png, encode_png, encode_pngs, settle, to_bytes, to_floats
from foible.png import packed


@given(st.integers(1, 40), st.integers(1, 40), st.sampled_from([1, 3]), st.integers(0, 2**31))
@settings(max_examples=40, deadline=None)
def test_png_keeps_every_pixel(height: int, width: int, channels: int, seed: int) -> None:
    image = torch.randint(
        0, 256, (channels, height, width), dtype=torch.uint8, generator=torch.Generator().manual_seed(seed)
    )
    data = encode_png(image)
    assert torch.equal(decode_png(data), image)
    with Image.open(io.BytesIO(data)) as opened:  # and every other reader agrees
        assert opened.mode == ("L" if channels == 1 else "RGB")
        assert np.array_equal(np.array(opened).reshape(height, width, channels), image.permute(1, 2, 0).numpy())


def test_png_refuses_other_channels() -> None:
    with pytest.raises(ValueError, match="2 channels"):
        encode_png(torch.zeros(2, 3, 3, dtype=torch.uint8))


def test_settle_is_what_a_png_holds() -> None:
    images = torch.randn(4, 1, 9, 9)
    stored = torch.stack([decode_png(encode_png(image)) for image in to_bytes(images)])
    assert torch.equal(settle(images), to_floats(stored))


def test_settle_lets_gradients_through() -> None:
    images = torch.rand(2, 1, 3, 3, requires_grad=True)
    (settle(images) * 3).sum().backward()
    assert images.grad is not None
    assert torch.equal(images.grad, torch.full_like(images, 3.0))


def drawn(count: int, size: int = 28) -> np.ndarray:
    """Images with runs and with noise, none like another."""
    images = np.random.default_rng(count).integers(0, 256, (count, 1, size, size), dtype=np.uint8)
    images[:, :, : size // 2] = np.arange(count, dtype=np.uint32).astype(np.uint8)[:, None, None, None]
    return images


@pytest.mark.parametrize("count", [0, 1, 2, 600])
def test_many_pngs_are_those_of_each_image_in_its_place(count: int) -> None:
    images = drawn(count)
    assert encode_pngs(images) == [encode_png(image) for image in images]


@pytest.mark.parametrize(("images", "shared"), [(drawn(600), True), (drawn(20), False), (drawn(3, size=500), True)])
def test_pngs_are_shared_out_where_there_are_many_or_large_ones(
    monkeypatch: pytest.MonkeyPatch, images: np.ndarray, shared: bool
) -> None:
    """And never in a worker process, which has one core; the bytes are the same."""
    seen = set()
    deflate = foible.png._deflate

    def noted(data: np.ndarray) -> bytes:
        seen.add(threading.current_thread())
        return deflate(data)

    monkeypatch.setattr("foible.png._deflate", noted)
    monkeypatch.setattr("foible.png.cores", lambda: 4)
    here = {threading.current_thread()}
    made = encode_pngs(images)
    assert seen.isdisjoint(here) if shared else seen == here
    seen.clear()
    monkeypatch.setattr("foible.png.parent_process", lambda: object())
    assert encode_pngs(images) == made
    assert seen == here


def test_pngs_are_the_bytes_of_zlibs_runs() -> None:
    """What runs of earlier versions hold: to be replayed to the byte."""
    image = drawn(1, size=9)[0]
    rows = np.pad(image[0], ((0, 0), (1, 0)))
    packer = zlib.compressobj(3, strategy=zlib.Z_RLE)
    data = packer.compress(rows.tobytes()) + packer.flush()
    assert len(data).to_bytes(4, "big") + b"IDAT" + data in encode_png(image)


@pytest.fixture
def crew(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[subprocess.Popen[bytes], ...]]:
    """Processes that help, on a machine of four cores where thirty images are many."""
    monkeypatch.setattr("foible.png.cores", lambda: 4)
    monkeypatch.setattr("foible.png.MANY", 30)
    monkeypatch.setattr("foible.png.SHARE", 5_000)
    foible.png.helpers.cache_clear()
    yield foible.png.helpers()[0]
    foible.png.dismiss(foible.png.helpers()[0])
    foible.png.helpers.cache_clear()


def test_many_pngs_are_shared_out_among_processes(crew: tuple[subprocess.Popen[bytes], ...]) -> None:
    """The same bytes in the same order, and also where one of the processes has been ended."""
    images = drawn(100)
    assert len(crew) == 3
    for _ in range(2):
        lengths, data = packed(images)
        assert np.split(np.frombuffer(data, np.uint8), np.cumsum(lengths))[7].tobytes() == encode_png(images[7])
        assert data == b"".join(encode_pngs(images))
        crew[0].kill()
        crew[0].wait()


@pytest.mark.usefixtures("crew")
def test_several_may_ask_at_once() -> None:
    sets = [drawn(40 + count) for count in range(6)]
    with ThreadPoolExecutor(6) as pool:
        for images, (_, data) in zip(sets, pool.map(packed, sets), strict=True):
            assert data == b"".join(encode_pngs(images))


def test_processes_that_help_end_when_nobody_asks(crew: tuple[subprocess.Popen[bytes], ...]) -> None:
    packed(drawn(100))
    assert crew[0].stdin is not None
    crew[0].stdin.close()
    assert crew[0].wait(20) == 0


def test_a_worker_process_has_no_helpers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("foible.png.cores", lambda: 4)
    monkeypatch.setattr("foible.png.parent_process", lambda: object())
    foible.png.helpers.cache_clear()
    assert foible.png.helpers()[0] == ()
    foible.png.helpers.cache_clear()
