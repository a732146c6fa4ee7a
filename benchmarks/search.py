"""What a find costs in inferences: gradient search against the paper's hill climbing and Foolbox's spatial attack.

    python -m benchmarks.search --json FILE [--trials 1000] [--basket FOLDER] [--only hill-climbing,foolbox]

Five MLPs, peer confidence 0.9, the same seed images for everybody. A gradient counts as two further inferences. Hill
climbing is counted as the paper counts, every candidate through all five networks. "The paper's" resamples X ← X′ at
every move; "composed" resamples the seed image once, which is our default and a stronger opponent.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import torch

from benchmarks.common import Row, arguments, report
from benchmarks.hunt import CONFIDENCE, MLPS, data_spec, some_trials
from foible.basket import Basket
from foible.data import load
from foible.images import settle, to_floats
from foible.objectives import Dissent
from foible.processes import one_thread
from foible.recipes.train.train import train
from foible.search import Found, Trials, gradient, hill_climb
from foible.search.task import FOUND
from foible.spaces import Affine

OBJECTIVE = Dissent(peer_confidence=CONFIDENCE)


def figures(found: Found, cost: torch.Tensor) -> tuple[float, float, float]:
    """Success rate, inferences per successful trial, inferences per find with failed trials counted in."""
    right = found.outcome == FOUND
    finds = max(1, int(right.sum()))
    return float(right.double().mean()), float(cost[right].sum()) / finds, float(cost.sum()) / finds


def against_hill_climbing(basket: Basket, trials: Trials) -> list[Row]:
    rows = []
    for suspect in basket.names:
        ours = gradient(Affine(), OBJECTIVE, basket, trials, suspect=suspect)
        success, each, all_in = figures(ours, ours.forwards + 2 * ours.backwards)
        for name, space in (("the paper's hill climbing", Affine(resample="each")), ("composed", Affine())):
            theirs = hill_climb(space, OBJECTIVE, basket, trials, suspect=suspect)
            their_success, their_each, their_all = figures(theirs, theirs.candidates * len(basket))
            enough = min(1.5, 0.9 / their_success if their_success else 1.5)  # 1.5 times as high, or 90 %
            rows += [
                Row(f"{suspect}: success", success, their_success, name, success / max(their_success, 1e-9), enough),
                Row(f"{suspect}: inferences per success", each, their_each, name, each / their_each, 1 / 3,
                    at_most=True),
                Row(f"{suspect}: inferences per find, failures counted", all_in, their_all, name, all_in / their_all,
                    0.1, at_most=True),
            ]  # fmt: skip
    return rows


class _Counted(torch.nn.Module):
    """A network that counts the images it has judged."""

    def __init__(self, network: torch.nn.Module) -> None:
        super().__init__()
        self.network, self.seen = network, 0

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        self.seen += len(images)
        return self.network(images)


def against_foolbox(basket: Basket, trials: Trials) -> list[Row]:
    """The same seeds and bounds (±30°, ±3 px). Foolbox is given the suspect alone; what its peers say of its finds is
    asked afterwards. Its inferences are what it spends on the batch: it goes on with images that it has found."""
    try:
        import foolbox
    except ImportError:
        print("Foolbox is not installed (pip install foolbox): that comparison is left out")
        return []
    import numpy

    space = Affine(degrees=5, percent=0, shear=0, pixels=0.5, reach=6)
    rows, images, aims = [], to_floats(trials.seeds), trials.aims
    for suspect in basket.names:
        ours = gradient(space, OBJECTIVE, basket, trials, suspect=suspect)
        success, _, all_in = figures(ours, ours.forwards + 2 * ours.backwards)
        for kind, attack in (
            ("grid, 5×5×5", foolbox.attacks.SpatialAttack(max_translation=3, max_rotation=30)),
            ("random, 100", foolbox.attacks.SpatialAttack(max_translation=3, max_rotation=30, grid_search=False)),
        ):
            numpy.random.seed(0)
            network = _Counted(basket.network(suspect))  # type: ignore[arg-type]
            model = foolbox.PyTorchModel(network.eval(), bounds=(0, 1), device="cpu")
            network.seen = 0
            changed, _, _ = attack(model, images, foolbox.criteria.Misclassification(aims))
            logits = basket.judge(settle(changed), [suspect, *basket.peers(suspect)])
            wrong = logits[0].argmax(1) != aims
            high = OBJECTIVE.found(logits, aims)
            argmax = Dissent().found(logits, aims)
            each, some = network.seen / len(aims), max(1, int(wrong.sum()))
            print(
                f"{suspect}, Foolbox {kind}: wrong on {int(wrong.sum())} of {len(aims)} seeds for {each:.0f} "
                f"inferences each; {100 * int((wrong & ~argmax).sum()) / some:.1f} % of these are wrong for some peer "
                f"too, {100 * int((wrong & ~high).sum()) / some:.1f} % with some peer below {CONFIDENCE}; high-value: "
                f"{int(high.sum())} (ours {int((ours.outcome == FOUND).sum())})"
            )
            finds = max(1, int(high.sum()))  # none counts as one, in its favour
            rows += [
                Row(f"{suspect}: high-value mistakes", success * len(aims), finds, f"Foolbox {kind}",
                    success * len(aims) / finds, 1),
                Row(f"{suspect}: inferences per high-value mistake", all_in, network.seen / finds, f"Foolbox {kind}",
                    all_in * finds / network.seen, 1, at_most=True),
            ]  # fmt: skip
    return rows


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--basket", type=Path, help="five MLPs that are trained already")
    parser.add_argument("--only", default="hill-climbing,foolbox")
    options = parser.parse_args()
    wanted, spec, rows = set(options.only.split(",")), data_spec(), []
    with tempfile.TemporaryDirectory() as name, one_thread():
        folder = options.basket or Path(name) / "mlps"
        if not options.basket:
            train(list(MLPS), spec, out=folder)
        basket = Basket.open(folder)
        trials = some_trials(basket, load(spec, quiet=True), options.trials)
        if "hill-climbing" in wanted:
            rows += against_hill_climbing(basket, trials)
        if "foolbox" in wanted:
            rows += against_foolbox(basket, trials)
    report(rows, options.json)


if __name__ == "__main__":
    main()
