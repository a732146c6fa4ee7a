"""The hunt on a GPU: inferences a second with small networks, efficiency with large ones.

    python -m benchmarks.gpu --json FILE [--trials 1000000] [--only mlps,resnet50]

Needs CUDA; the second part needs torchvision. The first bar is a rate and not a ratio, for an H200.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import torch

from benchmarks.common import Row, arguments, report
from benchmarks.hunt import (
    CONFIDENCE,
    MLPS,
    SEARCH_ALONE,
    _RecordedSpace,
    _RecordingBasket,
    data_spec,
    some_trials,
)
from foible.basket import Basket
from foible.data import Dataset, load
from foible.images import to_floats
from foible.objectives import Dissent
from foible.recipes.hunt.recipe import hunt
from foible.recipes.train.train import train
from foible.search import hill_climb
from foible.spaces import Affine
from foible.spaces.affine import warp


def mlps(trials: int, scratch: Path, folder: Path | None) -> list[Row]:
    """Hill climbing of five MLPs: every network judges every candidate, and each counts as one inference."""
    spec = data_spec()
    if folder is None:
        folder = scratch / "mlps"
        train(list(MLPS), spec, out=folder, device="cuda")
    basket = Basket.open(folder, device="cuda")
    given = some_trials(Basket.open(folder), load(spec, quiet=True), trials)
    objective = Dissent(peer_confidence=CONFIDENCE)
    torch.cuda.synchronize()
    started = time.perf_counter()
    hill_climb(Affine(), objective, basket, given.rows(torch.arange(min(trials, 200_000))), suspect="mlp-10")
    torch.cuda.synchronize()
    print(f"first search, compilation included: {time.perf_counter() - started:.1f} s")
    started = time.perf_counter()
    found = hill_climb(Affine(), objective, basket, given, suspect="mlp-10")
    torch.cuda.synchronize()
    seconds = time.perf_counter() - started
    rate = int(found.forwards.sum()) / seconds
    print(f"{trials:,} trials in {seconds:.2f} s, {int((found.outcome == 0).sum()):,} found")
    return [Row(f"hill climbing, five MLPs on {spec}, {trials:,} trials", rate, 250e6, "the bar, for an H200",
                rate / 250e6, 1, "inferences/s")]  # fmt: skip


@torch.no_grad()
def resnet50(trials: int, patience: int, repeats: int, scratch: Path) -> list[Row]:
    """Five ResNet-50s at 224×224 that differ a little, and noise that they agree on: only the time matters here."""
    from torchvision.models import resnet50 as build

    torch.manual_seed(0)
    first = build(num_classes=10)
    networks = {"0": first}
    for k in range(1, 5):
        networks[str(k)] = build(num_classes=10)
        networks[str(k)].load_state_dict(
            {name: value * (1 + 0.001 * k) if value.is_floating_point() else value
             for name, value in first.state_dict().items()}
        )  # fmt: skip
    basket = Basket(networks, classes=[str(i) for i in range(10)], preprocess="inside", device="cuda")
    images = (torch.rand(512, 3, 224, 224) * 255).to(torch.uint8)
    answers = basket.predict(images, batch=128).argmax(2)
    same = (answers == answers[0]).all(0).nonzero()[:, 0]
    data = Dataset("noise", "train", images[same], answers[0][same], basket.classes, ())
    recording = _RecordingBasket.of(basket)
    _RecordedSpace.log = recording.log
    settings = {"suspect": "0", "quiet": True, "trials": trials, "patience": patience, **SEARCH_ALONE}
    hunt(recording, data, space=_RecordedSpace(), out=scratch / "recorded", **settings)
    largest = max(size for _, size, _ in recording.log)
    shown = to_floats(data.images[:1].to("cuda")).repeat(largest, 1, 1, 1)
    matrix = Affine().matrix_of(torch.rand(largest, 6, device="cuda"))
    wholes, floors = [], []
    for repeat in range(repeats):
        torch.cuda.synchronize()
        started = time.perf_counter()
        hunt(basket, data, out=scratch / str(repeat), **settings)
        torch.cuda.synchronize()
        wholes.append(time.perf_counter() - started)
        started = time.perf_counter()
        for kind, size, names in recording.log:
            if kind == "warp":
                warp(shown[:size], matrix[:size])
            else:
                for name in names:
                    basket.network(name)(shown[:size])  # type: ignore[operator]
        torch.cuda.synchronize()
        floors.append(time.perf_counter() - started)
    whole, floor = min(wholes), min(floors)
    name = f"efficiency, five ResNet-50s at 224×224, {trials} trials"
    return [Row(name, whole, floor, "its forward passes and warps alone", floor / whole, 0.9, "s")]


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--trials", type=int, default=1_000_000)
    parser.add_argument("--large-trials", type=int, default=512)
    parser.add_argument("--patience", type=int, default=50)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--basket", type=Path, help="five MLPs that are trained already")
    parser.add_argument("--only", default="mlps,resnet50")
    options = parser.parse_args()
    wanted, rows = set(options.only.split(",")), []
    with tempfile.TemporaryDirectory() as name:
        if "mlps" in wanted:
            rows += mlps(options.trials, Path(name), options.basket)
        if "resnet50" in wanted:
            rows += resnet50(options.large_trials, options.patience, options.repeats, Path(name))
    report(rows, options.json)


if __name__ == "__main__":
    main()
