"""Training: what is learnt, where it stops, and that a kill changes nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import filelock
import pytest
import torch
from PIL import Image
from torch import Tensor
from typer.testing import CliRunner

from foible.data import Dataset, load
from foible.errors import Interrupted, UserError
from foible.networks import course
from foible.networks.files import load_folder
from foible.networks.fleet import Fleet
from foible.networks.progress_file import Checkpoint
from foible.recipes.train.config import TrainConfig
from foible.recipes.train.train import train

CLASSES = ("disc", "bar", "cross")


def pictures(n: int, split: str = "train", classes: tuple[str, ...] = CLASSES, size: int = 12) -> Dataset:
    """Three classes of simple shapes under noise."""
    generator = torch.Generator().manual_seed(n)
    images = torch.randint(0, 60, (n, 1, size, size), generator=generator, dtype=torch.uint8)
    labels = torch.randint(0, 3, (n,), generator=generator)
    images[labels == 0, :, 3:9, 3:9] += 90
    images[labels == 1, :, 5:7, :] += 90
    images[labels == 2, :, :, 5:7] += 90
    names = torch.tensor([classes.index(name) for name in CLASSES])
    return Dataset("pictures", split, images, names[labels], classes)


DATA, TEST = pictures(300), pictures(90, "test")


def weights(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(folder.iterdir()) if file.name != ".lock"}


def same(first: dict[str, Tensor], second: dict[str, Tensor]) -> bool:
    return all(torch.allclose(first[key], second[key], rtol=1e-3, atol=1e-5) for key in first)


def test_learns_and_writes_a_basket(tmp_path: Path) -> None:
    kwargs = {"test": TEST, "seeds": 2, "epochs": 60, "rate": 0.01, "quiet": True}
    entries = train(["mlp:8", "softmax"], DATA, out=tmp_path / "b", **kwargs)
    assert [entry.name for entry in entries] == ["mlp-8-s0", "mlp-8-s1", "softmax-s0", "softmax-s1"]
    assert all(entry.accuracy["test"] > 0.9 and entry.accuracy["train"] > 0.9 for entry in entries)
    assert not (tmp_path / "b" / ".training").exists()
    loaded = load_folder(tmp_path / "b")
    for entry, again in zip(entries, loaded, strict=True):
        right = again.module(again.preprocess(TEST.floats())).argmax(1) == TEST.labels
        assert right.float().mean().item() == pytest.approx(entry.accuracy["test"])
        assert again.classes == CLASSES
        assert again.training == entry.training
        assert (entry.training["epochs"], entry.training["stopped_because"]) == (60, "epochs")
        assert len(entry.training["history"]) == 60
        assert entry.training["history"][-1] < entry.training["history"][0]


@pytest.mark.parametrize("spec", ["mlp:6", "conv", "ae:8"])
def test_a_member_learns_the_same_alone(spec: str) -> None:
    kwargs = {"test": TEST, "epochs": 2, "batch": 64, "quiet": True}
    together = train(spec, DATA, seeds=[3, 5, 8], **kwargs)
    [alone] = train(spec, DATA, seeds=[5], **kwargs)
    assert same(together[1].module.state_dict(), alone.module.state_dict())
    assert together[1].accuracy == alone.accuracy
    assert not same(together[0].module.state_dict(), alone.module.state_dict())


def test_a_target_stops_each_network_for_itself() -> None:
    kwargs = {"test": TEST, "epochs": 60, "batch": 32, "target": 0.95, "quiet": True}
    together = train("mlp:6", DATA, seeds=4, **kwargs)
    steps = [entry.training["steps"] for entry in together]
    assert len(set(steps)) > 1
    for seed, entry in enumerate(together):
        assert entry.training["stopped_because"] == "target"
        assert entry.accuracy["test"] >= 0.95
        [alone] = train("mlp:6", DATA, seeds=[seed], **kwargs)
        assert alone.training["steps"] == steps[seed]
        assert same(alone.module.state_dict(), entry.module.state_dict())


def test_a_target_out_of_reach_ends_with_the_epochs() -> None:
    [entry] = train("softmax", DATA, test=TEST, epochs=1, rate=1e-6, target=1.0, quiet=True)
    assert entry.training["stopped_because"] == "epochs"


def test_preprocessing_is_the_familys_and_is_recorded(tmp_path: Path) -> None:
    train(["softmax", "conv"], DATA, test=TEST, epochs=1, out=tmp_path, quiet=True)
    softmax, conv = load_folder(tmp_path)
    assert softmax.preprocess.mean == ()
    pixels = DATA.floats()
    assert conv.preprocess.mean == pytest.approx((pixels.mean().item(),), abs=1e-5)
    assert conv.preprocess.std == pytest.approx((pixels.std(correction=0).item(),), abs=1e-5)


def test_labels_meet_by_class_name() -> None:
    turned = pictures(90, "test", ("cross", "disc", "bar"))
    [entry] = train("softmax", DATA, test=turned, epochs=20, quiet=True)
    [straight] = train("softmax", DATA, test=TEST, epochs=20, quiet=True)
    assert entry.accuracy == straight.accuracy
    other = Dataset("other", "test", TEST.images, TEST.labels, ("disc", "bar", "star"))
    with pytest.raises(UserError, match="star"):
        train("softmax", DATA, test=other, quiet=True)


# A run killed by itself, right after its Nth checkpoint, as kill -9 would.
KILLED = """
import os, signal, sys, torch
torch.set_num_threads(1)
sys.path[:0] = {tests!r}
from test_train import DATA, TEST
from foible.networks.progress_file import Checkpoint
from foible.recipes.train.train import train
write, left = Checkpoint.write, {after}
def dying(self, tensors, record):
    global left
    write(self, tensors, record)
    left -= 1
    if left == 0:
        os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))
Checkpoint.write = dying
train({specs!r}, DATA, test=TEST, seeds=3, out={out!r}, epochs=6, batch=64, target={target},
    checkpoint_seconds=0, quiet=True)
"""


def killed(after: int, **settings: Any) -> None:
    tests = [str(folder) for folder in Path(__file__).parents[:2]]
    script = KILLED.format(tests=tests, after=after, **settings)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode not in (0, 1), done.stderr


class Gone(BaseException):
    """What no program foresees."""


def stopped(after: int, *, specs: list[str], out: str, target: float | None) -> None:
    """As `killed`, without a process of its own."""
    write, left = Checkpoint.write, [after]

    def dying(self: Checkpoint, *given: Any) -> None:
        write(self, *given)
        left[0] -= 1
        if left[0] == 0:
            raise Gone

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Checkpoint, "write", dying)
        with pytest.raises(Gone):
            train(
                specs, DATA, test=TEST, seeds=3, out=out, epochs=6, batch=64, target=target, checkpoint_seconds=0,
                quiet=True,
            )  # fmt: skip


@pytest.mark.parametrize(
    ("end", "specs", "target", "kills"),
    [
        (killed, ["mlp:6", "ae:8"], None, (3, 40)),  # within the first fleet, then within the second
        (stopped, ["mlp:6", "ae:8"], 0.9, (3, 40)),
        (stopped, ["conv"], None, (3, 30)),  # on a CPU one network after another: within the first, then the second
    ],
)
def test_a_killed_run_goes_on_to_the_same_bits(
    end: Callable[..., None], specs: list[str], target: float | None, kills: tuple[int, ...], tmp_path: Path
) -> None:
    kwargs = {"test": TEST, "seeds": 3, "epochs": 6, "batch": 64, "target": target, "quiet": True}
    unbroken = count_steps(lambda: train(specs, DATA, out=tmp_path / "unbroken", **kwargs))
    broken = tmp_path / "broken"
    for after in kills:
        end(after, specs=specs, out=str(broken), target=target)
        assert any((broken / ".training").glob("*.safetensors"))
        assert not (broken / "basket.json").exists()
    assert count_steps(lambda: train(specs, DATA, out=broken, **kwargs)) <= unbroken - sum(kills)
    assert weights(broken) == weights(tmp_path / "unbroken")


def count_steps(run: object) -> int:
    steps = 0
    plain = Fleet.step

    def counting(self: Fleet, images: Tensor, labels: Tensor, number: int) -> Tensor:
        nonlocal steps
        steps += 1
        return plain(self, images, labels, number)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Fleet, "step", counting)
        run()  # type: ignore[operator]
    return steps


def test_a_finished_basket_is_not_trained_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kwargs = {"test": TEST, "out": tmp_path / "b", "epochs": 1}
    train("softmax", DATA, quiet=True, **kwargs)
    before = weights(tmp_path / "b")
    assert count_steps(lambda: train("softmax", DATA, **kwargs)) == 0
    assert "already holds this basket" in capsys.readouterr().err
    with pytest.raises(UserError, match="epochs was 1 and is now 2"):
        train("softmax", DATA, test=TEST, out=tmp_path / "b", epochs=2)
    with pytest.raises(UserError, match="data_sha256"):
        train("softmax", pictures(301), **kwargs)
    assert weights(tmp_path / "b") == before


def test_ctrl_c_says_how_to_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(course, "batches", interrupt)
        with pytest.raises(Interrupted, match="the same command goes on"):
            train("softmax", DATA, test=TEST, out=tmp_path / "b", epochs=1, quiet=True)
    with pytest.raises(UserError, match=r"unfinished training of other settings: rate was None and is now 0\.1"):
        train("softmax", DATA, test=TEST, out=tmp_path / "b", epochs=1, rate=0.1, quiet=True)
    assert len(train("softmax", DATA, test=TEST, out=tmp_path / "b", epochs=1, quiet=True)) == 1


def test_a_second_process_is_told(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    with filelock.FileLock(tmp_path / "b" / ".lock"), pytest.raises(UserError, match="another process is training"):
        train("softmax", DATA, test=TEST, out=tmp_path / "b", epochs=1, quiet=True)


def test_a_damaged_checkpoint_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(course, "batches", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(Interrupted):
            train("softmax", DATA, test=TEST, out=tmp_path, epochs=1, quiet=True)
    (tmp_path / ".training" / "softmax.safetensors").write_bytes(b"\x08\0\0\0\0\0\0\0nonsense")
    with pytest.raises(UserError, match=r"checkpoint .* is damaged"):
        train("softmax", DATA, test=TEST, out=tmp_path, epochs=1, quiet=True)


def test_a_loss_that_is_no_number_names_the_network(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"'mlp-6-6-6-s0' diverged.*lower --rate"):
        train("mlp:6-6-6", DATA, test=TEST, seeds=2, rate=1e30, epochs=2, out=tmp_path, quiet=True)
    assert not (tmp_path / "basket.json").exists()


@pytest.mark.parametrize(
    ("kwargs", "says"),
    [
        ({"specs": []}, "no network"),
        ({"specs": ["mlp:5", "mlp:5"]}, "given twice"),
        ({"specs": ["mpl:5"]}, "did you mean"),
        ({"specs": ["mlp:5"], "seeds": 0}, "seeds are"),
        ({"specs": ["mlp:5"], "seeds": [1, 1]}, "all different"),
        ({"specs": ["mlp:5"], "epochs": 0}, "epochs is 0"),
        ({"specs": ["mlp:5"], "batch": -1}, "batch is -1"),
        ({"specs": ["mlp:5"], "rate": float("nan")}, "rate is nan"),
        ({"specs": ["mlp:5"], "target": 98}, "target is 98"),
        ({"specs": ["mlp:5"], "weight_decay": -1.0}, "weight_decay"),
        ({"specs": ["mlp:5"], "device": "gpu"}, "expected auto, cpu or cuda"),
        ({"specs": ["mlp:5", "vit4:patch=5"]}, "do not divide"),
    ],
)
def test_wrong_settings_are_answered_before_training(kwargs: dict[str, object], says: str) -> None:
    with pytest.raises(UserError, match=says):
        train(data=DATA, test=TEST, quiet=True, **kwargs)  # type: ignore[arg-type]


def test_wrong_places_are_answered(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="is a file"):
        train("softmax", DATA, test=TEST, out=tmp_path / "file", quiet=True)
    (tmp_path / "softmax.safetensors").write_bytes(b"precious")
    with pytest.raises(UserError, match="part of no basket"):
        train("softmax", DATA, test=TEST, out=tmp_path, quiet=True)
    assert (tmp_path / "softmax.safetensors").read_bytes() == b"precious"


def test_fewer_images_than_a_batch_and_no_test_split() -> None:
    [entry] = train("mlp:3", pictures(5), epochs=2, quiet=True)
    assert set(entry.accuracy) == {"train"}
    assert entry.training["batch"] == 5
    with pytest.raises(UserError, match="target needs a test split"):
        train("mlp:3", DATA, target=0.5, quiet=True)
    with pytest.raises(UserError, match="test images have shape"):
        train("mlp:3", DATA, test=pictures(9, "test", size=14), quiet=True)


def test_a_config_keeps_what_was_given() -> None:
    config = TrainConfig(("mlp:5",), seeds=(1, 2))
    assert (config.data, config.target, config.seeds) == ("digits", None, (1, 2))


def test_digits_are_learnt_with_the_defaults() -> None:
    entries = train(["mlp:10", "mlp:50"], "digits", quiet=True)
    assert all(entry.accuracy["test"] >= 0.9 for entry in entries)


def test_the_command_prints_a_table_and_json(tmp_path: Path) -> None:
    from foible.cli import app

    images = load("digits", "test")
    arguments = ["train", "mlp:5", "--data", "digits", "--epochs", "2", "--seeds", "2", "--out", str(tmp_path / "b")]
    shown = CliRunner().invoke(app, arguments)
    assert shown.exit_code == 0, shown.output
    assert "mlp-5-s1" in shown.output
    printed = CliRunner().invoke(app, [*arguments, "--json"])
    networks = json.loads(printed.stdout)["networks"]
    assert [row["name"] for row in networks] == ["mlp-5-s0", "mlp-5-s1"]
    assert networks[0]["parameters"] == images.images[0].numel() * 5 + 5 + 5 * 10 + 10
    assert 0 <= networks[0]["test"] <= 1


def test_mnist_reaches_the_papers_range(real_data: Path) -> None:
    if not (real_data / "mnist").is_dir():
        pytest.skip("no MNIST")
    [entry] = train("mlp:30", "mnist", epochs=2, quiet=True)
    assert entry.accuracy["test"] > 0.93


def test_probes_of_a_network_are_peers_of_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train("mlp:50", "digits", out=tmp_path / "one", quiet=True)
    backbone = f"probe:{tmp_path / 'one'}"
    kwargs = {"seeds": 3, "out": tmp_path / "peers"}
    entries = train([backbone, f"{backbone},hidden=32"], "digits", **kwargs)
    assert "50 features, what layer 'output' is given" in capsys.readouterr().err
    assert len(entries) == 6
    assert all(entry.accuracy["test"] >= 0.9 for entry in entries)
    test = load("digits", "test")
    answers = torch.stack([entry.module(entry.preprocess(test.floats())).argmax(1) for entry in entries])
    assert all((answers[i] != answers[j]).any() for i in range(6) for j in range(i))  # they differ
    before = weights(tmp_path / "peers")
    again = train([backbone, f"{backbone},hidden=32"], "digits", **kwargs)
    assert "already holds this basket" in capsys.readouterr().err
    assert [entry.sha256 for entry in again] == [entry.sha256 for entry in entries]
    assert weights(tmp_path / "peers") == before
    with pytest.raises(UserError, match=r"weight_decay was 0\.0 and is now 0\.5"):
        train([backbone, f"{backbone},hidden=32"], "digits", weight_decay=0.5, **kwargs)


@pytest.mark.parametrize(
    ("specs", "kwargs", "says"),
    [
        (["probe:one", "mlp:5"], {}, "trained apart"),
        (["probe:one", "probe:one"], {}, "given twice"),
        (["probe:one"], {"target": 0.9}, "leave --target out"),
        (["probe:one"], {"rate": 0.1}, "leave --batch and --rate out"),
        (["probe:one", "probe:./one"], {}, "two probes would be called 'probe-mlp-5'"),
        (["probe:one", "probe:small"], {}, "give their probes an --out each"),
        (["probe:nowhere"], {}, "nowhere"),
        (["probe:coloured"], {}, "cannot take images of shape"),
    ],
)
def test_wrong_probes_are_answered_before_training(
    specs: list[str], kwargs: dict[str, object], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shapes = {"one": DATA, "small": pictures(9, size=8)}
    if "coloured" in specs[0]:
        shapes["coloured"] = Dataset("c", "train", DATA.images.expand(-1, 3, -1, -1), DATA.labels, CLASSES)
    for name, data in shapes.items():
        if any(name in spec for spec in specs):
            train("mlp:5", data, epochs=1, out=name, quiet=True)
    with pytest.raises(UserError, match=says):
        train(specs, DATA, test=TEST, out="peers", quiet=True, **kwargs)  # type: ignore[arg-type]
    assert not (tmp_path / "peers" / "basket.json").exists()


def test_photographs_of_any_size_are_probed(tmp_path: Path) -> None:
    for split, data in (("train", DATA), ("test", TEST)):
        for row, (image, label) in enumerate(zip(data.images[:60], data.labels[:60], strict=True)):
            folder = tmp_path / "photos" / split / CLASSES[label]
            folder.mkdir(parents=True, exist_ok=True)
            size = (12 + 5 * (row % 3), 12 + 4 * (row % 3))  # of three shapes
            Image.fromarray(image[0].numpy()).resize(size).save(folder / f"{row}.png")
    (tmp_path / "photos" / "train" / "bar" / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\nnothing")
    train("mlp:20", DATA, test=TEST, epochs=5, out=tmp_path / "one", quiet=True)
    spec = f"folder:{tmp_path / 'photos'}?grey=true"
    [entry] = train(f"probe:{tmp_path / 'one'}", spec, out=tmp_path / "peers", quiet=True)
    assert entry.shape == (1, 12, 12)
    assert entry.training["images"] == 60
    assert entry.accuracy["test"] > 0.8
    assert set(entry.classes or ()) == set(CLASSES)
    net = tmp_path / "net.py"  # does not say what size it takes: then the data must
    net.write_text("from torch import nn\ndef f():\n  return nn.Sequential(nn.Flatten(), nn.Linear(100, 3))\n", "utf-8")
    sized = f"probe:{net}:f?preprocess=inside&classes=data"
    assert train(sized, f"{spec}&size=10", quiet=True)[0].shape == (1, 10, 10)
    with pytest.raises(UserError, match=r"different sizes.*size="):
        train(sized, spec, quiet=True)
    with pytest.raises(UserError, match="size="):  # the zoo trains on images of one size
        train("mlp:5", spec, quiet=True)


def test_the_command_trains_probes(tmp_path: Path) -> None:
    from foible.cli import app

    train("mlp:20", "digits", epochs=5, out=tmp_path / "one", quiet=True)
    arguments = ["train", f"probe:{tmp_path / 'one'}", "--seeds", "2", "--out", str(tmp_path / "b")]
    shown = CliRunner().invoke(app, arguments)
    assert shown.exit_code == 0, shown.output
    assert "probe-mlp-20-s1" in shown.output
    printed = CliRunner().invoke(app, [*arguments, "--json"])
    networks = json.loads(printed.stdout)["networks"]
    assert networks[0]["parameters"] == 20 * 10 + 10  # the head's alone
    helped = CliRunner().invoke(app, ["train", "--help"], env={"COLUMNS": "200"})
    assert "probe:BACKBONE" in helped.output
    wrong = CliRunner().invoke(app, ["train", "probe:nowhere", "--out", str(tmp_path / "c")])
    assert isinstance(wrong.exception, UserError)
