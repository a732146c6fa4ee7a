"""The GAN of paper 4: how long the whole command takes, and how surely a basket labels what it draws.

    python -m benchmarks.generators --networks FOLDER [--data mnist] [--device cuda] [--spec dcgan] [--json FILE]

FOLDER: a basket of 99 % and more. On two cores the reduced size is
`--spec "dcgan?width=24&side=32" --epochs 17 --rate 0.0008`.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import torch

from benchmarks.command import foible
from benchmarks.common import Row, arguments, report
from foible.basket import Basket
from foible.data import load
from foible.generators.health import samples
from foible.generators.opening import open_drawing
from foible.images import settle
from foible.processes import pick_device

SECONDS = {"cuda": 180.0, "cpu": 1200.0}
SURE, SHARE, SAMPLES, ROWS = 0.9, 0.9, 10_000, 1000


@torch.no_grad()
def sure(basket: Basket, images: torch.Tensor) -> list[float]:
    """The share of images of which each network, and last the mean of all, is sure."""
    said = torch.cat([basket.judge(part.to(basket.device)).softmax(2).cpu() for part in images.split(ROWS)], 1)
    return [float((one.amax(1) >= SURE).float().mean()) for one in (*said, said.mean(0))]


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--networks", required=True, help="a basket folder")
    parser.add_argument("--data", default="mnist")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--spec", default="dcgan")
    parser.add_argument("--epochs", default="")
    parser.add_argument("--rate", default="")
    parser.add_argument("--out", type=Path, help="keep the generator here")
    given = parser.parse_args()
    place = pick_device(given.device)
    more = [word for name in ("epochs", "rate") if getattr(given, name) for word in (f"--{name}", getattr(given, name))]
    with tempfile.TemporaryDirectory() as folder:
        out = given.out or Path(folder) / "generator"
        command = ["generator", "train", given.spec, "--data", given.data, "--out", str(out), "--device", place.type]
        seconds = foible(*command, *more).seconds
        model = open_drawing(str(out))
    basket = Basket.open(given.networks, device=place.type)
    model.to(place).eval()  # type: ignore[attr-defined]
    drawn = torch.cat([settle(samples(model, ROWS, seed)).cpu() for seed in range(SAMPLES // ROWS)])  # type: ignore[arg-type]
    real = load(given.data, "test", quiet=True)
    accuracy = (basket.predict(real.images).argmax(2) == real.labels).float().mean(1)
    ours, theirs = sure(basket, drawn), sure(basket, real.images.float() / 255)
    print(f"accuracy of the networks: {[round(float(one), 4) for one in accuracy]}")
    rows = [Row(f"{given.spec} on {place.type}, whole command", seconds, SECONDS[place.type], "bar",
                seconds / SECONDS[place.type], 1.0, "s", at_most=True)]  # fmt: skip
    for name, own, other in zip((*basket.names, "mean of all"), ours, theirs, strict=True):
        rows.append(Row(f"samples of which {name} is {SURE:.0%} sure", own, other, "real images", own, SHARE))
    report(rows, given.json)


if __name__ == "__main__":
    main()
