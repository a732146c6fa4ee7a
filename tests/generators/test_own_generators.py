"""Generators of others: a user's FILE.py:NAME, and an AutoencoderKL behind hf:FOLDER (its class by a stand-in)."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from foible.errors import UserError
from foible.generators import Generator, open_generator
from foible.permission import Permission

FILE = """
import torch
from torch import nn

class Mine(nn.Module):
    shape = (1, 8, 8)

    def __init__(self):
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.down, self.up = nn.Linear(64, 6), nn.Linear(3, 64)

    def encode(self, images):
        return self.down(images.flatten(1)).chunk(2, 1)

    def decode(self, codes):
        return self.up(codes).sigmoid().view(-1, 1, 8, 8)

ready = Mine()

class Maps:
    def encode(self, images):
        return images[:, :, ::2, ::2]

    def decode(self, codes):
        return codes.repeat_interleave(2, 2).repeat_interleave(2, 3).clamp(0, 1)

class Draws(Maps):
    def encode(self, images):
        return torch.rand(len(images), 3)

class Signed(Maps):
    def decode(self, codes):
        return 2 * super().decode(codes) - 1

class Wrong(Maps):
    def decode(self, codes):
        return codes

class Says(Mine):
    latent = 4

class Fails(Mine):
    def encode(self, images):
        raise ValueError("no such thing")

def broken():
    raise ValueError("no weights")

number = 3
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(FILE, "utf-8")
    return path


def opened(file: Path, name: str, shape: tuple[int, int, int] | None = None) -> Generator:
    spec = f"{file}:{name}"
    return open_generator(spec, may=Permission.typed(spec), shape=shape)


def test_a_module_of_a_users_file(file: Path) -> None:
    images = torch.rand(5, 1, 8, 8)
    for name in ("Mine", "ready"):
        generator = opened(file, name)
        codes = generator.encode(images)
        assert (generator.shape, generator.latent, tuple(codes.shape)) == ((1, 8, 8), 3, (5, 3))
        assert tuple(generator.decode(codes).shape) == (5, 1, 8, 8)
        assert generator.to("cpu").spec == f"{file}:{name}"
    inner: Any = opened(file, "ready")
    assert torch.equal(inner.encode(images), inner.inner.down(images.flatten(1))[:, :3])  # the mean of (mean, variance)
    assert not any(weight.requires_grad for weight in inner.inner.parameters())
    before = opened(file, "Mine").fingerprint
    assert opened(file, "Mine").fingerprint == before
    file.write_text(FILE + "# another version\n", "utf-8")
    assert opened(file, "Mine").fingerprint != before


def test_codes_of_any_form_are_flat(file: Path) -> None:
    with pytest.raises(UserError, match="does not say which images it takes"):
        opened(file, "Maps")
    generator = opened(file, "Maps", shape=(3, 8, 8))
    images = torch.rand(2, 3, 8, 8)
    assert generator.latent == 48
    assert tuple(generator.encode(images).shape) == (2, 48)
    assert torch.equal(generator.decode(generator.encode(images))[:, :, ::2, ::2], images[:, :, ::2, ::2])


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("Draws", "two answers to one question: return the mean"),
        ("Signed", r"gave pixels from -\S+ to \S+: expected \[0, 1\]; end it"),
        ("Wrong", r"expected images \(2, 3, 8, 8\)"),
        ("Says", "says latent = 4, and its codes have 3"),
        ("Fails", "failed: ValueError: no such thing"),
        ("broken", "failed: ValueError: no weights"),
        ("number", "is int, without encode and decode"),
        ("Nobody", "has nothing called 'Nobody'"),
    ],
)
def test_what_is_wrong_with_a_users_generator_is_told(file: Path, name: str, says: str) -> None:
    with pytest.raises(UserError, match=says):
        opened(file, name, (3, 8, 8))


def test_a_users_file_runs_only_where_that_is_permitted(file: Path) -> None:
    with pytest.raises(UserError, match="add --trust"):
        open_generator(f"{file}:Mine")


class AutoencoderKL(nn.Module):
    """The interface of diffusers' class: `encode(x).latent_dist.mean`, `decode(z).sample`, in [−1, 1]."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor(0.5))

    @classmethod
    def from_pretrained(cls, folder: str, **options: Any) -> AutoencoderKL:
        assert options == {"use_safetensors": True, "local_files_only": True}
        if not (Path(folder) / "diffusion_pytorch_model.safetensors").read_bytes():
            raise OSError("the file is empty")
        return cls()

    def encode(self, images: Tensor) -> Any:
        assert -1 <= float(images.min()) < 0
        mean = self.weight * images[:, :, ::2, ::2] + 1
        return SimpleNamespace(latent_dist=SimpleNamespace(mean=mean))

    def decode(self, latents: Tensor) -> Any:
        made = (latents - 1) / self.weight
        return SimpleNamespace(sample=made.repeat_interleave(2, 2).repeat_interleave(2, 3))


def test_an_autoencoder_of_diffusers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in = ModuleType("diffusers")
    stand_in.AutoencoderKL = AutoencoderKL  # type: ignore[attr-defined]
    spec = f"hf:{tmp_path}"
    with pytest.raises(UserError, match="nothing is downloaded"):
        open_generator("hf:stabilityai/sd-vae-ft-mse")
    config = {"_class_name": "AutoencoderKL", "in_channels": 3, "sample_size": 8, "scaling_factor": 0.5,
              "shift_factor": 0.25}  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(config), "utf-8")
    with pytest.raises(UserError, match=r"has no diffusion_pytorch_model\.safetensors"):
        open_generator(spec)
    (tmp_path / "diffusion_pytorch_model.safetensors").write_bytes(b"x")
    if "diffusers" not in sys.modules:
        monkeypatch.setitem(sys.modules, "diffusers", None)
        with pytest.raises(UserError, match="needs diffusers, which is not here"):
            open_generator(spec)
    monkeypatch.setitem(sys.modules, "diffusers", stand_in)
    generator = open_generator(spec)
    assert (generator.shape, generator.latent) == ((3, 8, 8), 48)
    images = torch.rand(2, 3, 8, 8)
    codes = generator.encode(images)
    assert torch.allclose(codes.view(2, 3, 4, 4), (0.5 * (2 * images[:, :, ::2, ::2] - 1) + 1 - 0.25) * 0.5)
    assert torch.allclose(generator.decode(codes)[:, :, ::2, ::2], images[:, :, ::2, ::2], atol=1e-6)
    assert open_generator(spec, shape=(3, 4, 6)).latent == 18
    (tmp_path / "config.json").write_text(json.dumps(config | {"_class_name": "UNet2DModel"}), "utf-8")
    with pytest.raises(UserError, match="expected an AutoencoderKL"):
        open_generator(spec)
    (tmp_path / "config.json").write_text(json.dumps(config), "utf-8")
    (tmp_path / "diffusion_pytorch_model.safetensors").write_bytes(b"")
    with pytest.raises(UserError, match="could not be loaded"):
        open_generator(spec)
