"""Networks as a user names them: what each kind takes, and what is said when something is missing or wrong."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from foible.errors import UserError
from foible.networks import zoo
from foible.networks.files import Entry
from foible.networks.load.specs import fingerprint, open_networks
from foible.networks.preprocess import Preprocess
from foible.permission import Permission
from foible.views import View

SHAPE = (3, 12, 12)
CLASSES = ("cat", "dog", "eel")

MINE = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3 * 12 * 12, 3)

    def forward(self, images):
        return self.fc(images.flatten(1))

def plain():
    return Net()

def named():
    net = Net()
    net.classes = ["cat", "dog", "eel"]
    return net

ready = Net()
ready.class_to_idx = {"dog": 1, "cat": 0, "eel": 2}

def function():
    return lambda images: images.flatten(1)[:, :3]
"""


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(MINE)
    Path("classes.txt").write_text("\n".join(CLASSES))
    torch.manual_seed(0)


def network(classes: int = 3) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(3 * 12 * 12, classes)).eval()


def opened(text: str, trust: bool = False) -> Entry:
    [entry] = open_networks(text, CLASSES, SHAPE, Permission.typed(text, trust=trust))
    return entry


@pytest.mark.parametrize("file", ["w.safetensors", "w.pt"])
def test_a_zoo_network_with_its_weights(file: str) -> None:
    made = zoo.build("softmax", SHAPE, 3)
    if file.endswith("pt"):
        torch.save({"state_dict": nn.DataParallel(made).state_dict(), "classes": ["x", "y", "z"]}, file)
        assert opened(f"softmax?weights={file}").classes == ("x", "y", "z")
    else:
        save_file(made.state_dict(), file)
        with pytest.raises(
            UserError, match=r"does not say which classes.*classes=FILE.*classes=imagenet.*classes=data"
        ):
            opened(f"softmax?weights={file}")
    entry = opened(f"A=softmax?weights={file}&classes=data")
    assert (entry.name, entry.classes, entry.shape, entry.preprocess) == ("A", CLASSES, SHAPE, Preprocess())
    images = torch.rand(2, *SHAPE)
    assert torch.equal(entry.module(images), made(images))
    assert entry.sha256 == fingerprint(made)


def test_the_number_of_classes_is_the_checkpoint_s() -> None:
    torch.save(zoo.build("mlp:4", SHAPE, 5).state_dict(), "w.pt")
    with pytest.raises(UserError, match=r"5 outputs, the data has 3 classes"):
        opened("mlp:4?weights=w.pt&classes=data")
    Path("five.txt").write_text("a\nb\nc\nd\ne\n")
    assert opened("mlp:4?weights=w.pt&classes=five.txt").classes == tuple("abcde")
    with pytest.raises(UserError, match=r"lacks hidden2\.bias, hidden2\.weight: .*another architecture"):
        opened("mlp:4-4?weights=w.pt&classes=five.txt")


def test_a_zoo_network_of_another_size_than_the_data() -> None:
    torch.save(zoo.build("softmax", (3, 6, 6), 3).state_dict(), "w.pt")
    entry = opened("softmax?weights=w.pt&classes=data&size=6")
    assert entry.shape == (3, 6, 6)
    assert entry.module(entry.preprocess(torch.rand(1, *SHAPE))).shape == (1, 3)
    [alone] = open_networks("softmax?weights=w.pt&classes=classes.txt&size=6", None, None)
    assert alone.shape == (3, 6, 6)
    with pytest.raises(UserError, match="needs the data"):
        open_networks("softmax?weights=w.pt&classes=classes.txt", None, None)


def test_the_average_of_a_checkpoint_is_an_option() -> None:
    plain, averaged = (zoo.build("softmax", SHAPE, 3) for _ in range(2))
    torch.save({"state_dict": plain.state_dict(), "ema": averaged.state_dict()}, "w.pt")
    assert opened("softmax?weights=w.pt&classes=data").sha256 == fingerprint(plain)
    assert opened("softmax?weights=w.pt&classes=data&ema=true").sha256 == fingerprint(averaged)
    with pytest.raises(UserError, match=r"ema is 'maybe': expected true or false"):
        opened("softmax?weights=w.pt&classes=data&ema=maybe")


def test_a_factory_of_the_user_s() -> None:
    for name in ("named", "ready"):
        assert opened(f"mine.py:{name}?preprocess=inside").classes == CLASSES
    with pytest.raises(UserError, match="does not say which classes"):
        opened("mine.py:plain?preprocess=inside")
    assert opened("mine.py:plain?preprocess=inside&classes=classes.txt").classes == CLASSES
    assert opened("mine.py:function?preprocess=inside&classes=data").sha256.startswith("callable:")


def test_a_factory_with_a_checkpoint() -> None:
    weights = {"fc.weight": torch.ones(3, 3 * 12 * 12), "fc.bias": torch.zeros(3)}
    torch.save({"model": weights, "classes": ["x", "y", "z"]}, "w.pt")
    entry = opened("mine.py:named?preprocess=inside&checkpoint=w.pt")
    assert entry.classes == ("x", "y", "z")  # the checkpoint's, where there are two lists
    assert entry.module(torch.ones(1, *SHAPE))[0, 0].item() == 3 * 12 * 12
    save_file({"fc.weight": torch.ones(3, 7)}, "w.safetensors")
    with pytest.raises(UserError, match=r"w\.safetensors lacks fc\.bias"):
        opened("mine.py:named?preprocess=inside&checkpoint=w.safetensors")
    with pytest.raises(UserError, match=r"only a torch\.nn\.Module takes a checkpoint"):
        opened("mine.py:function?preprocess=inside&checkpoint=w.pt&classes=data")


@pytest.mark.parametrize(
    ("options", "how"),
    [
        ("preprocess=inside", Preprocess()),
        ("preprocess=inside&size=12", Preprocess(size=(12, 12))),
        ("mean=0.1,0.2,0.3&std=1,2,3", Preprocess((0.1, 0.2, 0.3), (1.0, 2.0, 3.0))),
        ("size=8x6&resize=9", Preprocess(size=(6, 8), resize=9)),
        ("size=8&resize=10x9&interpolation=bicubic", Preprocess(size=(8, 8), resize=(9, 10), interpolation="bicubic")),
        ("size=8&resize=fit", Preprocess(size=(8, 8))),
        ("scale=255", Preprocess((0.0,) * 3, (1 / 255,) * 3)),
        ("scale=255&mean=51,51,51&std=255,255,255", Preprocess((0.2,) * 3, (1.0,) * 3)),
        ("preprocess=inside&scale=255", Preprocess((0.0,) * 3, (1 / 255,) * 3)),
    ],
)
def test_preprocessing_as_it_is_said(options: str, how: Preprocess) -> None:
    entry = opened(f"mine.py:named?{options}")
    assert entry.preprocess == how
    assert entry.shape == (SHAPE if how.size is None else (3, *how.size))


def test_a_view_for_photographs() -> None:
    entry = opened("mine.py:named?preprocess=inside&size=12&resize=14&interpolation=bicubic")
    assert entry.preprocess.view == View((12, 12), 14, "bicubic")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("mine.py:named", "does not say how its images are preprocessed: add .preprocess=inside"),
        ("mine.py:named?classes=data", "size=224; and &size=224 where photographs of any size are judged$"),
        ("mine.py:plain", "size=224; and &classes=FILE for the names of its outputs, and &size=224 where photographs"),
        ("mine.py:named?preprocess=imagenet", "expected preprocess=inside"),
        ("mine.py:named?preprocess=inside&mean=1&std=1", "without mean="),
        ("mine.py:named?preprocess=inside&clases=data", "no option 'clases'; did you mean 'classes'.; it takes"),
        ("mine.py:named?mean=a&std=1", "cannot read the preprocessing"),
        ("mine.py:named?size=a", "cannot read the preprocessing.*expected N or WIDTHxHEIGHT"),
        ("mine.py:named?size=1x2x3", "cannot read the preprocessing"),
        ("mine.py:named?size=0", "expected whole pixels"),
        ("mine.py:named?resize=8", "has no size"),
        ("mine.py:named?size=8&interpolation=cubic", "expected one of nearest"),
        ("mine.py:named?scale=0", "largest value of a pixel"),
        ("mine.py:named?scale=x", "cannot read the preprocessing"),
        ("mine.py:named?preprocess=inside&classes=none.txt", "cannot read the class list 'none.txt'"),
        ("mine.py:named?preprocess=inside&classes=imagenet.txt", "cannot read the class list"),
        ("onnx:none.onnx", "cannot read the network 'none.onnx'"),
        ("onnx:", "names no network"),
        ("onxx:x.onnx", "did you mean 'onnx'"),
        ("net.onnx", "did you mean onnx:net.onnx"),
        ("mine.py", "names a file but nothing in it"),
        ("w.pt", "a file of weights needs its architecture.*timm:NAME.checkpoint=FILE"),
        ("nonsense?weights=w.pt", "unknown network 'nonsense'"),
        ("softmax?weights=none.pt&classes=data", "cannot read the weights none.pt"),
        ("softmax?weights=w.pt&checkpoint=w.pt", "no option 'checkpoint'"),
        ("softmax", "nor a spec with weights"),
        ("hf:./nowhere", "there is no such folder"),
        ("hf:x?checkpoint=w.pt", "no option 'checkpoint'; it takes classes, prompt, preprocess"),
    ],
)
def test_mistakes_are_named(text: str, says: str) -> None:
    torch.save(network().state_dict(), "w.pt")
    with pytest.raises(UserError, match=says):
        opened(text)


def whole(kind: str, file: str) -> nn.Module:
    """A network saved whole, in one of the three formats."""
    made = network()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if kind == "pickle":
            torch.save(made, file)
        elif kind == "torchscript":
            torch.jit.script(made).save(file)
        else:
            torch.export.save(torch.export.export(made, (torch.zeros(4, *SHAPE),)), file)
    return made


@pytest.mark.parametrize(("kind", "file"), [("pickle", "n.pt"), ("torchscript", "n.ts"), ("pt2", "n.pt2")])
def test_whole_networks_need_trust(kind: str, file: str) -> None:
    made = whole(kind, file)
    text = f"{kind}:{file}?preprocess=inside&classes=data"
    with pytest.raises(UserError, match=r"can run any program hidden in it.*state_dict\(\).*--trust"):
        opened(text)
    for state in (f"softmax?weights={file}&classes=data", f"mine.py:plain?checkpoint={file}&classes=data"):
        with pytest.raises(UserError, match=rf"can run any program hidden in it.*{kind}:{file} with --trust"):
            opened(state, trust=True)  # trust is for what was named outright
    entry = opened(text, trust=True)
    images = torch.rand(9, *SHAPE)  # not a multiple of the four that the exported program takes
    assert torch.allclose(entry.module.eval()(images), made(images))
    assert entry.name == "n"
    other = opened(text, trust=True)
    assert entry.sha256 == other.sha256
    with pytest.raises(UserError, match="cannot read the network"):
        opened(f"{kind}:none?preprocess=inside&classes=data", trust=True)
    Path(file).write_bytes(b"nonsense")
    with pytest.raises(UserError, match=f"could not be loaded as {kind}"):
        opened(text, trust=True)


def test_a_pickle_with_a_network_and_its_classes_inside() -> None:
    torch.save({"model": network().half(), "names": {0: "cat", 1: "dog", 2: "eel"}}, "n.pt")
    entry = opened("pickle:n.pt?preprocess=inside", trust=True)
    assert entry.classes == CLASSES
    assert entry.module(torch.rand(1, *SHAPE)).dtype == torch.float32
    torch.save({"w": torch.zeros(1)}, "n.pt")
    with pytest.raises(UserError, match=r"holds dict, not a module"):
        opened("pickle:n.pt?preprocess=inside", trust=True)


def test_a_fingerprint_that_a_network_carries_is_used() -> None:
    made = network()
    assert fingerprint(made) == fingerprint(network_like(made))
    made.fingerprint = "abc"  # type: ignore[assignment]
    assert fingerprint(made) == "abc"


def network_like(other: nn.Module) -> nn.Module:
    made = network()
    made.load_state_dict(other.state_dict())
    return made


@pytest.mark.parametrize(
    ("kind", "package"), [("timm", "timm"), ("torchvision", "torchvision"), ("hf", "transformers")]
)
def test_a_package_that_is_not_here_is_named(kind: str, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)  # type: ignore[arg-type]
    with pytest.raises(UserError, match=f"{kind}:x needs {package}.*pip install {package}"):
        opened(f"{kind}:x")


def test_a_torchvision_of_another_torch_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
        monkeypatch.delitem(sys.modules, name)
    (tmp_path / "torchvision").mkdir()
    (tmp_path / "torchvision" / "__init__.py").write_text(
        "raise RuntimeError('operator torchvision::nms does not exist')"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UserError, match=r"nms does not exist\): install a torchvision and a torch that were built for"):
        opened("torchvision:resnet18")
