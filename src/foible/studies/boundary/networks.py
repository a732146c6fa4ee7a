"""Paper 4's networks: three architectures trained to the same test accuracies, by nine recipes and in crowds.

Appendix A: MLP1, CNN1 and ViT1 by Adam at 5e-4 in batches of 128; MLP2, CNN2 and ViT2 by AdamW with a decay of 1e-5;
MLP3 at 1e-3 in batches of 256, decay 1e-5; CNN3 without decay and with augmentation; ViT3 with a decay of 5e-5. What
the paper leaves open is in `OURS`.
"""

from __future__ import annotations

import hashlib
import io
import json
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from foible.basket import pick_device
from foible.data import Dataset, load
from foible.disk import write_with_folder
from foible.errors import UserError
from foible.networks import training_folder
from foible.networks.bands import APART
from foible.networks.files import Entry, save_basket
from foible.networks.fleet import Fleet
from foible.networks.lesson import Missed
from foible.networks.material import accuracies, answers
from foible.recipes.train.config import TrainConfig
from foible.recipes.train.fleets import check_task, fleets, restored
from foible.recipes.train.train import NotReached, train

WITHIN = 0.0005  # ±0.05 % of the test images
AUGMENT = "crops?area=80&aspect=1.1&degrees=10"
OURS = (
    "What the paper leaves open is ours: MLP3 and ViT3 are AdamW, as recipe 2; CNN3 sees crops of 80 to 100 % of the "
    "area, aspect within 10 %, rotation within ±10 degrees; `cnn4` has 32-32-64-64 maps of 3×3, a pool after every "
    "second convolution, 512 and 128 units; `vit4` has patches of 4×4 pixels and 64 numbers a token, unless it says "
    "otherwise."
)
EPOCHS = {"mlp4": 40, "cnn4": 20, "vit4": 40}  # at most; a network stops at its last target


@dataclass(frozen=True)
class Recipe:
    """How one of the nine is trained."""

    spec: str
    rate: float = 5e-4
    batch: int = 128
    weight_decay: float = 0.0  # above 0: AdamW
    augment: str | None = None

    def told(self) -> str:
        by = f"AdamW, decay {self.weight_decay:g}" if self.weight_decay else "Adam"
        return f"{self.spec} by {by}, rate {self.rate:g}, batch {self.batch}" + (
            f", {self.augment}" if self.augment else ""
        )


RECIPES = {
    "MLP1": Recipe("mlp4"),
    "MLP2": Recipe("mlp4", weight_decay=1e-5),
    "MLP3": Recipe("mlp4", rate=1e-3, batch=256, weight_decay=1e-5),
    "CNN1": Recipe("cnn4"),
    "CNN2": Recipe("cnn4", weight_decay=1e-5),
    "CNN3": Recipe("cnn4", augment=AUGMENT),
    "ViT1": Recipe("vit4"),
    "ViT2": Recipe("vit4", weight_decay=1e-5),
    "ViT3": Recipe("vit4", weight_decay=5e-5),
}


class Crowd(NamedTuple):
    """Networks of one architecture and accuracy, by what they answer."""

    architecture: str
    target: float
    seeds: list[int]  # of those that stood at the target, as they were asked for
    logits: NDArray[np.float16]  # (seeds, n, classes) on the given images
    accuracy: NDArray[np.float64]  # (seeds,) on the test images
    missed: dict[int, str]  # by seed, why there is none


def crowds(
    architecture: str,
    data: str,
    images: Tensor,
    targets: Sequence[float],
    seeds: Sequence[int],
    *,
    out: Path,
    device: str = "auto",
    quiet: bool = False,
    epochs: int | None = None,
    within: float = WITHIN,
    recipe: Recipe | None = None,
) -> list[Crowd]:
    """A fleet of `seeds` trained to each target, and its answers on `images`, a crowd for each target.

    architecture: a spec of the zoo; trained by recipe 1 (Adam, 5e-4, 128) unless `recipe` says otherwise.
    images: uint8 (n, channels, height, width). No weights are kept, answers are: `out` has one .npz for each call
    with other arguments or other data, which is read where it is there already. While they learn, a folder beside it
    holds where they stand, and the same call goes on from there.
    """
    how = recipe or Recipe(architecture)
    config = TrainConfig(
        (architecture,), data, tuple(seeds), epochs or EPOCHS.get(architecture.partition(":")[0]), how.batch, how.rate,
        how.weight_decay, tuple(targets), within, how.augment,
    )  # fmt: skip
    splits = load(data, "train", quiet=quiet), load(data, "test", quiet=quiet)
    pixels = hashlib.sha256(images.cpu().contiguous().numpy().tobytes()).hexdigest()
    asked = hashlib.sha256(repr((config, pixels, [split.sha256 for split in splits])).encode()).hexdigest()
    file = out / f"crowd-{architecture.replace(':', '-')}-{asked[:12]}.npz"
    state = file.with_suffix("")
    if not file.exists():
        with training_folder.only_here(state):
            training_folder.claim(state, (), asdict(config))
            write_with_folder(file, _packed(_trained(config, *splits, images, device, state, quiet)))
    shutil.rmtree(state, ignore_errors=True)  # of now, or of a kill just before the end
    return _unpacked(file, architecture)


def _trained(
    config: TrainConfig, data: Dataset, test: Dataset, images: Tensor, device: str, state: Path, quiet: bool
) -> list[Crowd]:
    place, spec = pick_device(device), config.specs[0]
    check_task(config, data, test)
    [(lesson, material, outcome)] = fleets(config, data, test, place, state, quiet=quiet)
    assert material.test is not None
    entries, found = restored(lesson, outcome.trained, material), []
    for target in config.bands:
        of_target = [entry for entry in entries if entry.training["target"] == target]
        seeds = [entry.seed - entry.training["retries"] * APART for entry in of_target]
        logits, right = np.zeros((0, len(images), material.classes), np.float16), np.zeros(0)
        if of_target:
            fleet = Fleet([entry.module for entry in of_target], seeds, device=place)
            logits = answers(fleet, images.to(place), lesson.preprocess).cpu().numpy().astype(np.float16)
            right = np.array(accuracies(fleet, *material.test, lesson.preprocess))
        found.append(Crowd(spec, target, seeds, logits, right, _why(outcome.missed, target)))
    return found


def _why(missed: Sequence[Missed], target: float) -> dict[int, str]:
    return {one.seed: one.said() for one in missed if one.target == target}


def _packed(found: Sequence[Crowd]) -> bytes:
    arrays: dict[str, Any] = {}
    for number, crowd in enumerate(found):
        told = {
            "target": crowd.target,
            "seeds": crowd.seeds,
            "missed": {str(key): why for key, why in crowd.missed.items()},
        }
        arrays |= {
            f"logits{number}": crowd.logits,
            f"accuracy{number}": crowd.accuracy,
            f"told{number}": json.dumps(told),
        }
    held = io.BytesIO()
    np.savez(held, **arrays)
    return held.getvalue()


def _unpacked(file: Path, architecture: str) -> list[Crowd]:
    found = []
    try:
        with np.load(io.BytesIO(file.read_bytes()), allow_pickle=False) as held:
            for number in range(len(held.files) // 3):
                told = json.loads(str(held[f"told{number}"]))
                missed = {int(seed): why for seed, why in told["missed"].items()}
                found.append(
                    Crowd(architecture, told["target"], told["seeds"], held[f"logits{number}"],
                          held[f"accuracy{number}"], missed)
                )  # fmt: skip
    except Exception as error:  # the bytes may be anything
        raise UserError(
            f"{file} is damaged ({type(error).__name__}): remove it, and the same command trains these networks again"
        ) from error
    return found


def nine(
    data: str,
    out: Path,
    targets: Sequence[float],
    seed: int,
    device: str = "auto",
    quiet: bool = False,
    *,
    recipes: dict[str, Recipe] = RECIPES,
    epochs: int | None = None,
    within: float = WITHIN,
) -> dict[float, Path]:
    """By target, a basket folder with the nine networks that stand at it, called MLP1 to ViT3.

    One that no seed brought there is not in the basket; `missed.json` in its training's folder says so.
    """
    held: dict[float, list[Entry]] = {target: [] for target in targets}
    for place, (name, recipe) in enumerate(recipes.items()):
        # Each from a seed of its own: a decay of 1e-5 alone would leave MLP2 the twin of MLP1.
        own = seed * len(recipes) + place
        entries = _one(recipe, data, out / "networks" / name, targets, own, device, quiet, epochs, within)
        for entry in entries:
            held[entry.training["target"]].append(replace(entry, name=name))
    folders = {target: out / f"nine-at-{100 * target:g}" for target in targets}
    for target, entries in held.items():
        if not entries:
            raise UserError(
                f"none of {', '.join(recipes)} stood within ±{within:g} of {target:g}: see {out / 'networks'}"
            )
        save_basket(folders[target], entries)
    return folders


def _one(
    recipe: Recipe, data: str, out: Path, targets: Sequence[float], seed: int, device: str, quiet: bool,
    epochs: int | None, within: float,
) -> list[Entry]:  # fmt: skip
    """One network at each target that it reached, in a basket of its own; none where it reached no target."""
    try:
        return train(
            recipe.spec, data, seeds=[seed], out=out, epochs=epochs or EPOCHS.get(recipe.spec.partition(":")[0]),
            batch=recipe.batch, rate=recipe.rate, weight_decay=recipe.weight_decay, target=list(targets), within=within,
            augment=recipe.augment, device=device, quiet=quiet,
        )  # fmt: skip
    except NotReached:
        return []
