"""Explaining many images at once, against one at a time by the same code; and the first shift against the smallest.

    python -m benchmarks.explain --generator FOLDER --networks FOLDER [--data mnist] [--json FILE]

FOLDER: what `foible generator train vae:10 --data mnist` and `foible train` wrote. One thread.
"""

from __future__ import annotations

import time
from pathlib import Path

import torch

from benchmarks.common import Row, arguments, report
from foible.basket import Basket
from foible.data import load
from foible.objectives import Restore
from foible.search import Trials, descend
from foible.search.nearest.in_box import nearest_in_box
from foible.search.task import FOUND
from foible.search.walking import Paths
from foible.spaces import Latent

IMAGES, ALONE = 256, 24  # at once; and one at a time, of which the mean is taken


def main() -> None:
    parser = arguments("Explaining mistakes: batched against one at a time.")
    parser.add_argument("--generator", type=Path, required=True)
    parser.add_argument("--networks", type=Path, required=True)
    parser.add_argument("--data", default="mnist")
    options = parser.parse_args()
    torch.set_num_threads(1)
    basket = Basket.open(options.networks)
    data, suspect = load(options.data, split="test", quiet=True), basket.names[0]
    wrong = (basket.predict(data.images, [suspect])[0].argmax(1) != data.labels).nonzero()[:IMAGES, 0]
    trials = Trials(torch.arange(len(wrong)), data.images[wrong], data.labels[wrong])
    space = Latent(str(options.generator), step=1.0, reach=8.0)

    def seconds(some: list[Trials]) -> float:
        began = time.perf_counter()
        for part in some:
            descend(space, Restore(), basket, part, suspect=suspect)
        return time.perf_counter() - began

    alone = [trials.rows(torch.tensor([row])) for row in range(0, len(wrong), max(1, len(wrong) // ALONE))]
    seconds(alone[:2])
    one = seconds(alone) / len(alone)
    many = seconds([trials]) / len(wrong)
    found = descend(space, Restore(), basket, trials, suspect=suspect)
    rows = (found.outcome == FOUND).nonzero()[:, 0]
    paths = Paths(found.accepted.draws, torch.bincount(found.accepted.row, minlength=len(wrong)))[rows]
    first = torch.stack([(2 * path - 1).sum(0).norm() for path in paths]).mean()
    shrunk = nearest_in_box(space, Restore(), basket, trials.seeds[rows], trials.aims[rows], paths, suspect=suspect)
    least = shrunk.points.shift.norm(dim=1).mean()
    report(
        [
            Row(f"{len(wrong)} images, a second", 1 / many, 1 / one, "one at a time", one / many, 20.0, "images/s"),
            Row("mended", len(rows), len(wrong), "mistakes", len(rows) / len(wrong), 0.99),
            Row("mean shift, smallest", float(least), float(first), "first", float(least / first), 0.5, at_most=True),
        ],
        options.json,
    )


if __name__ == "__main__":
    main()
