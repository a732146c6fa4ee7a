"""Generators: they learn, they are kept and opened again, and those that collapsed are named."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from foible.cli import run
from foible.data import Dataset, load
from foible.errors import Interrupted, UserError
from foible.generators import Collapsed, Generator, check_images, open_generator, train_generator
from foible.generators.base import Coder
from foible.generators.build import begin, build
from foible.generators.health import Measures, collapse, measure
from foible.generators.learning import steepness
from foible.generators.pictures import sheet, square
from foible.networks.loop import Turn

SMALL = "vae:4?width=100"
HEALTHY = Measures(100, 0.01, 0.06, (1.0, 2.0), 2, 0.9)


@pytest.fixture(scope="module")
def digits() -> Dataset:
    return load("digits", "train", quiet=True)


@pytest.fixture(scope="module")
def held_out() -> Dataset:
    return load("digits", "test", quiet=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small generator of digits, trained by the command."""
    out = tmp_path_factory.mktemp("generator") / "G"
    rest = ["--epochs", "12", "--rate", "0.01", "--batch", "64", "--out", str(out), "--device", "cpu", "--json"]
    assert run(["generator", "train", SMALL, "--data", "digits", *rest]) == 0
    return out


def record(folder: Path) -> dict[str, Any]:
    return dict(json.loads((folder / "generator.json").read_text("utf-8")))


def small(images: int = 64) -> Dataset:
    """Squares of 16×16 in four places: images that four numbers tell apart."""
    places = torch.arange(images) % 4
    pixels = torch.zeros(images, 1, 16, 16, dtype=torch.uint8)
    for place, (down, across) in enumerate(((0, 0), (0, 8), (8, 0), (8, 8))):
        pixels[places == place, :, down : down + 8, across : across + 8] = 255
    return Dataset("squares", "train", pixels, places, tuple("abcd"))


def test_a_small_generator_learns(folder: Path) -> None:
    about = record(folder)
    losses = about["history"]["test"]["loss"]
    assert len(losses) == 12
    assert losses[-1] < losses[4] < losses[0]
    assert about["measures"]["error"] < 0.7 * about["measures"]["mean_image_error"]
    assert about["collapsed"] is None
    assert abs(losses[-1] - sum(about["history"]["test"][part][-1] for part in ("reconstruction", "divergence"))) < 1e-3


def test_it_opens_again_with_the_same_codes(folder: Path, held_out: Dataset) -> None:
    images = held_out.floats(slice(0, 20))
    first, second = open_generator(str(folder)), open_generator(str(folder))
    codes = first.encode(images)
    assert first.shape == (1, 28, 28)
    assert (tuple(codes.shape), first.latent) == ((20, 4), 4)
    assert torch.equal(codes, second.encode(images))
    assert first.fingerprint == second.fingerprint
    assert open_generator(first.spec).fingerprint == first.fingerprint
    made = first.decode(codes.requires_grad_())
    assert tuple(made.shape) == (20, 1, 28, 28)
    assert 0 <= made.detach().min() < made.detach().max() <= 1
    made.sum().backward()
    assert codes.grad is not None
    assert float(codes.grad.abs().max()) > 0
    assert isinstance(first, Coder)
    assert all(weight.grad is None for weight in first.parameters())
    assert tuple(first.features(images).shape) == (20, 100)
    assert torch.equal(first.head(first.features(images))[:, :4], codes)


def test_a_finished_generator_is_not_trained_again(folder: Path) -> None:
    before = (folder / "generator.safetensors").stat().st_mtime_ns
    settings: dict[str, Any] = {"epochs": 12, "rate": 0.01, "batch": 64, "device": "cpu", "quiet": True}
    again = train_generator(SMALL, "digits", out=folder, **settings)
    assert (folder / "generator.safetensors").stat().st_mtime_ns == before
    assert again.fingerprint == open_generator(str(folder)).fingerprint
    with pytest.raises(UserError, match="other settings: seed was 0 and is now 1"):
        train_generator(SMALL, "digits", out=folder, seed=1, **settings)
    assert not (folder / ".training").exists()


def test_the_page_shows_samples_curves_and_figures(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert run(["generator", "show", str(folder), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["active dimensions"] >= 2
    page = (folder / "report.html").read_text("utf-8")
    assert page.count("data:image/png") == 4
    for text in ("Samples", "Held-out images", "Losses", "Divergence", "reconstruction error", "Kingma"):
        assert text in page
    assert "Larsen" not in page


DOTS = """
import torch
from foible.data import Dataset

pixels = (torch.arange(64 * 64) * 37 % 251).to(torch.uint8).view(64, 1, 8, 8)
dots = Dataset("dots", "train", pixels, torch.arange(64) % 2, ("a", "b"))
settings = {"test": dots, "epochs": 4, "batch": 16, "device": "cpu", "quiet": True}
"""
KILLED = """
import os, signal, sys
from foible.generators import vae
from foible.generators.train import train_generator
step = vae.VaeLearning.step

def die(self, images, draw, turn, share):
    if share > 0.6:
        os.kill(os.getpid(), signal.SIGKILL)
    return step(self, images, draw, turn, share)

vae.VaeLearning.step = die
torch.set_num_threads(1)
train_generator("vae:3?width=20", dots, out=sys.argv[1], checkpoint_seconds=0, **settings)
"""


def test_a_killed_training_goes_on_to_the_same_weights(tmp_path: Path) -> None:
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    died = subprocess.run([sys.executable, "-c", DOTS + KILLED, str(killed)])
    assert died.returncode == -signal.SIGKILL
    assert (killed / ".training" / "generator.safetensors").exists()
    assert not (killed / "generator.json").exists()
    names: dict[str, Any] = {}
    exec(DOTS, names)
    for out in (killed, whole):
        with pytest.raises(Collapsed):  # four epochs are too few
            train_generator("vae:3?width=20", names["dots"], out=out, **names["settings"])
    assert (killed / "generator.safetensors").read_bytes() == (whole / "generator.safetensors").read_bytes()
    assert record(killed)["history"] == record(whole)["history"]


def test_an_adversarial_training_goes_on_to_the_same_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from foible.generators.vaegan import VaeGanLearning

    data, own = small(), VaeGanLearning.step
    settings: dict[str, Any] = {"test": data, "epochs": 2, "batch": 16, "device": "cpu", "quiet": True}

    def stop(self: Any, images: Tensor, draw: Any, turn: Turn, share: float) -> Tensor:
        if share > 0.55:
            raise KeyboardInterrupt
        return own(self, images, draw, turn, share)

    with monkeypatch.context() as patch:
        patch.setattr(VaeGanLearning, "step", stop)
        with pytest.raises(Interrupted, match="the same command goes on"):
            train_generator("vaegan:6?width=4", data, out=tmp_path / "cut", checkpoint_seconds=0, **settings)
    for out in ("cut", "whole"):
        with pytest.raises(Collapsed):  # eight steps are too few
            train_generator("vaegan:6?width=4", data, out=tmp_path / out, **settings)
    assert record(tmp_path / "cut") == record(tmp_path / "whole")  # the hash of the weights too
    assert set(record(tmp_path / "cut")["history"]["train"]) == {
        "loss", "reconstruction", "divergence", "decoder", "discriminator",
    }  # fmt: skip


def test_an_adversarial_generator_learns() -> None:
    data = small()
    settings: dict[str, Any] = {"test": data, "epochs": 20, "batch": 16, "rate": 0.01, "device": "cpu", "quiet": True}
    model = train_generator("vaegan:6?width=4&gamma=10", data, **settings)
    found = measure(model, data.images)
    assert found.error < 0.6 * found.mean_image_error
    assert found.spread > 0.3


def test_each_of_the_three_networks_learns_from_its_own_loss() -> None:
    images = small(16).floats()
    learning: Any = begin("vaegan:3?width=4", (1, 16, 16), 0, 1e-3, torch.device("cpu"))
    losses = learning.losses(images, lambda _: torch.zeros(16, 3))
    for name, place in (("encoder", 0), ("decoder", 3), ("discriminator", 4)):
        weights = [weight for group in learning.optimisers[name].param_groups for weight in group["params"]]
        wanted = torch.autograd.grad(losses[place], weights, retain_graph=True)
        assert any(float(slope.abs().max()) > 0 for slope in wanted)
    before = {name: weight.detach().clone() for name, weight in learning.modules.named_parameters()}
    learning.step(images, lambda _: torch.zeros(16, 3), Turn(0, torch.arange(16)[None], 1e-3), 0.0)
    still = [name for name, weight in learning.modules.named_parameters() if torch.equal(weight, before[name])]
    assert still == []
    kept, live = learning.model.head.bias, learning.live.head.bias  # after the first step, nine tenths of the way
    assert torch.allclose(kept, before["model.head.bias"].lerp(live, 0.9))


@pytest.mark.parametrize("shape", [(3, 17, 22), (1, 16, 16)])
def test_an_adversarial_generator_takes_any_size(shape: tuple[int, int, int]) -> None:
    model = build("vaegan:5?width=2", shape).eval()
    codes = model.encode(torch.rand(2, *shape))
    assert tuple(codes.shape) == (2, 5)
    assert tuple(model.decode(codes).shape) == (2, *shape)


def test_a_huge_weight_of_the_divergence_is_named_posterior_collapse(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "G"
    settings = ["--epochs", "8", "--rate", "0.02", "--out", str(out), "--device", "cpu"]
    assert run(["generator", "train", "vae:4?width=16&beta=1000", *settings]) == 1
    assert "posterior collapse: 4 of 4 latent dimensions" in capsys.readouterr().err
    assert "posterior collapse" in record(out)["collapsed"]
    assert "Of no use" in (out / "report.html").read_text("utf-8")
    with pytest.raises(Collapsed, match="posterior collapse"):
        open_generator(str(out))
    with pytest.raises(Collapsed, match="posterior collapse"):  # the same again does not become a success
        train_generator("vae:4?width=16&beta=1000", out=out, epochs=8, rate=0.02, device="cpu", quiet=True)


def test_a_loss_that_is_no_number_is_named(tmp_path: Path, digits: Dataset, held_out: Dataset) -> None:
    out = tmp_path / "G"
    with pytest.raises(
        Collapsed, match=r"NaN: a loss or a weight is no longer a number after \d+ steps at rate 1e\+30"
    ):
        train_generator("vae:2?width=8", digits, test=held_out, out=out, epochs=9, rate=1e30, device="cpu", quiet=True)
    assert record(out)["collapsed"].startswith("NaN")
    assert record(out)["training"]["steps"] < 9 * 11
    assert record(out)["measures"] is None
    assert run(["generator", "show", str(out)]) == 0


def test_a_decoder_that_ignores_its_code_is_named(held_out: Dataset) -> None:
    model = build("vae:3?width=8", (1, 28, 28))
    with torch.no_grad():
        model.decoder[0].weight.zero_()
    found = measure(model, held_out.images)
    assert found.spread < 1e-6
    said = collapse(replace(found, divergence=(1.0, 1.0, 1.0), active=3), adversarial=False)
    assert said is not None
    assert "ignores the code" in said


def test_what_is_well_is_not_named_and_what_is_not_is() -> None:
    assert collapse(HEALTHY, adversarial=True) is None
    assert collapse(replace(HEALTHY, spread=0.25), adversarial=False) is None
    for wrong, name in (
        (replace(HEALTHY, spread=0.25), "mode collapse: samples hardly differ, their pixels vary 25 %"),
        (replace(HEALTHY, divergence=(0.001, 0.002), active=0), "posterior collapse: 2 of 2"),
        (replace(HEALTHY, error=0.06), "nothing learnt"),
    ):
        said = collapse(wrong, adversarial=True)
        assert said is not None
        assert said.startswith(name)


def test_measures_of_a_known_case() -> None:
    data = small(40)
    model = build("vae:2?width=8", (1, 16, 16))
    with torch.no_grad():
        model.head.weight.zero_()
        model.head.bias.copy_(torch.tensor([1.0, 0.0, 0.0, 0.0]))  # mean (1, 0), variance 1
    found = measure(model, data.images)
    assert found.divergence == pytest.approx((0.5, 0.0))
    assert found.active == 1
    assert found.mean_image_error == pytest.approx(0.25 * 0.75)  # each pixel is white in a quarter of the images


def test_the_sheet_puts_images_in_their_places() -> None:
    images = torch.stack([torch.full((1, 400, 400), value / 5) for value in range(5)])
    made = sheet(images, 2)
    assert tuple(made.shape) == (1, 3 * 402 - 2, 2 * 402 - 2)
    assert [int(made[0, 402 * row, 402 * column]) for row in range(3) for column in range(2)] == [
        0,
        51,
        102,
        153,
        204,
        255,
    ]
    corners = square()
    assert corners[0].tolist() == [-3, 3]
    assert corners[-1].tolist() == [3, -3]


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("vea:10", r"unknown generator 'vea:10'; did you mean 'vae'"),
        ("vae", "is no number of latent dimensions"),
        ("vae:0", "is no number of latent dimensions"),
        ("vae:2?widht=4", "has no option 'widht'; did you mean 'width'"),
        ("vae:2?width=0", "width is 0: expected 1 to"),
        ("vae:2?beta=-1", "beta is -1.0: expected a number, 0 or more"),
    ],
)
def test_wrong_specs_are_told_in_words(spec: str, says: str, digits: Dataset, held_out: Dataset) -> None:
    with pytest.raises(UserError, match=says):
        train_generator(spec, digits, test=held_out, device="cpu", quiet=True)


def test_wrong_settings_are_told_in_words(
    digits: Dataset, held_out: Dataset, capsys: pytest.CaptureFixture[str]
) -> None:
    given: tuple[tuple[dict[str, Any], str], ...] = (
        ({"rate": -1.0}, "rate is -1.0"), ({"epochs": 0}, "epochs is 0"), ({"seed": -1}, "seed is -1"),
        ({"device": "tpu"}, "device is 'tpu'"), ({"test": small()}, "test images have shape"),
    )  # fmt: skip
    for wrong, says in given:
        with pytest.raises(UserError, match=says):
            train_generator("vae:2", digits, **{"test": held_out, **wrong})
    with pytest.raises(UserError, match="give test="):
        train_generator("vae:2", digits)
    tiny = Dataset("tiny", "train", torch.zeros(8, 1, 8, 8, dtype=torch.uint8), torch.zeros(8).long(), ("a", "b"))
    with pytest.raises(UserError, match="too small for 'vaegan:4'"):
        train_generator("vaegan:4", tiny, test=tiny)
    assert run(["generator", "train", "vae:2", "--data", "no-such-data", "--out", "x"]) == 2
    assert run(["generator", "show", "no-such-folder"]) == 2
    assert "is not a generator" in capsys.readouterr().err


def test_foreign_and_damaged_folders(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there is no generator 'nowhere'"):
        open_generator("nowhere")
    with pytest.raises(UserError, match="a kind of generator and not a trained one"):
        open_generator("vae:10")
    with pytest.raises(UserError, match=r"is not a generator: it has no generator\.json"):
        open_generator(str(tmp_path))
    weights = (folder / "generator.safetensors").read_bytes()
    about = record(folder)
    for changed, data, says in (
        ({"schema_version": 9}, weights, "has schema_version 9"),
        ({"file": "../x"}, weights, "expected a plain name"),
        ({"latent": 5}, weights, "latent is 5, and 'vae:4"),
        ({"shape": [1, 27, 28]}, weights, "another architecture, image size"),
        ({"spec": "mine.py:Thing"}, weights, "unknown generator"),
        ({"measures": {"images": "many"}}, weights, "measures"),
        ({}, weights[:-8], "is not the file that was saved"),
    ):
        (tmp_path / "generator.json").write_text(json.dumps(about | changed), "utf-8")
        (tmp_path / "generator.safetensors").write_bytes(data)
        with pytest.raises(UserError, match=says):
            open_generator(str(tmp_path))
    (tmp_path / "generator.json").write_text("{", "utf-8")
    with pytest.raises(UserError, match="cannot be read as JSON"):
        open_generator(str(tmp_path))


def test_images_of_another_shape_are_refused(folder: Path) -> None:
    generator: Generator = open_generator(str(folder))
    check_images(generator, torch.zeros(2, 1, 28, 28))
    with pytest.raises(UserError, match=r"images have shape \(3, 32, 32\), the generator .* is of \(1, 28, 28\)"):
        check_images(generator, torch.zeros(2, 3, 32, 32))


def test_a_gan_draws_resumes_and_does_not_encode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from foible.generators.dcgan import Dcgan, DcganLearning
    from foible.generators.opening import open_drawing

    data, own = small(), DcganLearning.step
    settings: dict[str, Any] = {
        "test": data, "epochs": 6, "batch": 32, "rate": 0.002, "device": "cpu", "quiet": True, "checkpoint_seconds": 0
    }  # fmt: skip

    def stop(self: Any, images: Tensor, draw: Any, turn: Turn, share: float) -> Tensor:
        if share > 0.6:
            raise KeyboardInterrupt
        return own(self, images, draw, turn, share)

    with monkeypatch.context() as patch:
        patch.setattr(DcganLearning, "step", stop)
        with pytest.raises(Interrupted):
            train_generator("dcgan?width=2", data, out=tmp_path / "cut", **settings)
    for out in ("cut", "whole"):
        with contextlib.suppress(Collapsed):  # twelve steps may be too few
            train_generator("dcgan?width=2", data, out=tmp_path / out, **settings)
    assert record(tmp_path / "cut") == record(tmp_path / "whole")
    about = record(tmp_path / "whole")
    assert about["latent"] == 100
    assert about["measures"]["error"] is None
    assert (tmp_path / "whole" / "samples.png").is_file()
    assert not (tmp_path / "whole" / "reconstructions.png").exists()
    model = Dcgan((1, 16, 16), 100, width=2).eval()
    drawn = model.decode(torch.randn(3, 100)).detach()
    assert drawn.shape == (3, 1, 16, 16)
    assert 0 <= float(drawn.min()) <= float(drawn.max()) <= 1
    healthy = json.loads((tmp_path / "whole" / "generator.json").read_text()) | {"collapsed": None}
    (tmp_path / "whole" / "generator.json").write_text(json.dumps(healthy))
    assert open_drawing(str(tmp_path / "whole")).latent == 100
    with pytest.raises(UserError, match="draws and does not encode"):
        open_generator(str(tmp_path / "whole"))


def test_a_gan_of_another_side_draws_images_of_the_same_size() -> None:
    learning: Any = begin("dcgan?width=2&side=32", (1, 28, 28), 0, 2e-3, torch.device("cpu"))
    noise = torch.randn(4, 100)
    assert learning.model.large(noise).shape == (4, 1, 32, 32)
    assert learning.model.decode(noise).shape == (4, 1, 28, 28)
    assert learning.discriminator(torch.zeros(4, 1, 32, 32)).shape == (4,)
    assert learning.step(torch.rand(4, 1, 28, 28), lambda _: noise, Turn(0, torch.zeros(1, 4), 2e-3), 0.0).shape == (2,)
    for side in (16, 40, 272):
        with pytest.raises(UserError, match=f"side is {side}: expected a multiple of 16, 32 to 256"):
            begin(f"dcgan?side={side}", (1, 28, 28), 0, 2e-3, torch.device("cpu"))


def test_a_gan_pulls_samples_towards_images() -> None:
    images = torch.full((16, 1, 16, 16), 0.9)
    learning: Any = begin("dcgan?width=2", (1, 16, 16), 0, 2e-3, torch.device("cpu"))
    noise = torch.randn(16, 100, generator=torch.Generator().manual_seed(0))
    before = float(learning.model.decode(noise).detach().mean())
    for number in range(120):
        losses = learning.step(images, lambda _: noise, Turn(number, torch.arange(16)[None], 2e-3), 0.0)
    assert losses.shape == (2,)
    assert float(learning.model.decode(noise).detach().mean()) > before + 0.1


def test_a_gan_keeps_the_mean_of_what_learns() -> None:
    """After step n the mean goes 5/(5 + n) of the way to what has just been learnt, batch normalisation's numbers too;
    it is what draws, and what is measured on held-out images."""
    learning: Any = begin("dcgan?width=2", (1, 16, 16), 0, 2e-3, torch.device("cpu"))
    noise, images = torch.randn(16, 100, generator=torch.Generator().manual_seed(0)), torch.full((16, 1, 16, 16), 0.9)
    names = ("decoder.1.weight", "decoder.2.running_var")
    mean = {name: torch.zeros(()) for name in names}
    for number in range(8):
        learning.step(images, lambda _: noise, Turn(number, torch.arange(16)[None], 2e-3), 0.0)
        now, share = learning.learner.state_dict(), 5 / (5 + number)
        mean = {name: (1 - share) * mean[name] + share * now[name] for name in names}
    for name in names:
        torch.testing.assert_close(learning.model.state_dict()[name], mean[name])
        assert not torch.equal(learning.model.state_dict()[name], now[name])
    learning.modules.eval()
    before = learning.losses(images, lambda _: noise)
    learning.learner.decoder[-2].weight.data.mul_(100)
    assert torch.equal(learning.losses(images, lambda _: noise), before)
    learning.model.decoder[-2].weight.data.mul_(100)
    assert not torch.equal(learning.losses(images, lambda _: noise), before)


def test_slopes_of_a_discriminator_cost_what_they_should() -> None:
    """Of a linear one with weights w the slope is w everywhere."""
    weights = torch.tensor([3.0, -4.0, 0.0, 1.0], requires_grad=True)
    costs = steepness(lambda images: images.flatten(1) @ weights, torch.rand(5, 1, 2, 2))
    assert float(costs.detach()) == pytest.approx(0.5 * 26)
    costs.backward()
    torch.testing.assert_close(weights.grad, weights.detach())


def test_memory_is_laid_out_as_the_weights_are() -> None:
    """On a GPU a GAN's weights are channels last, a checkpoint's tensors are not, and fused Adam wants them alike."""
    from foible.generators.learning import drawer, held, restore

    def learning() -> Any:
        found = begin("dcgan?width=2", (1, 16, 16), 0, 0.001, torch.device("cpu"))
        return found, found.modules.to(memory_format=torch.channels_last)

    first, _ = learning()
    turn = Turn(0, torch.zeros(1, 1), 0.001)
    first.step(torch.rand(4, 1, 16, 16), drawer(first.model, 4, 0, 0, torch.device("cpu")), turn, 0.0)
    kept = {name: value.detach().clone(memory_format=torch.contiguous_format) for name, value in held(first).items()}
    second, _ = learning()
    restore(second, kept)
    for optimiser in second.optimisers.values():
        for weight, memory in optimiser.state.items():
            assert all(value.stride() == weight.stride() for value in memory.values() if value.ndim)
            assert memory["exp_avg"].abs().sum() > 0
