from __future__ import annotations

import io

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from foible.images import decode_png, encode_png, settle, to_bytes, to_floats


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
