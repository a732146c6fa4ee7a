"""`foible study confidence`: how sure a network is of real images, and of fooling ones (paper 5, Sec. F).

    test images → median confidence of all, of those it gets right and wrong; beside that of fooling images

The paper's are ImageNet's under AlexNet; CIFAR-10 and MNIST stand in for it. Fooling images are climbed to here by
gradient ascent, without regularisation and with weight decay; `--set fooling=RUN` adds what a run found. Beyond the
paper: whether any score of the answers tells the two apart.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import Tensor

from foible.basket.accuracy import answers
from foible.data.catalogue import KNOWN
from foible.errors import UserError
from foible.rejection.fitting import judge_source, open_source, suspect_first
from foible.rejection.scores import told_apart
from foible.studies.common import Result, Row, data_for, share_row
from foible.studies.easily_fooled import figures
from foible.studies.easily_fooled.rows import median_row
from foible.studies.easily_fooled.stage import FIGURES, Stage, chosen_classes, climb, open_stage, real_logits

PAPER = {"all": 60.3, "right": 86.7, "wrong": 33.7, "fooling": 88.11}  # medians, %
CLIMBED = ("plain", "longer")
SCALES: dict[str, dict[str, Any]] = {
    "quick": {"images": 4000, "tested": 1000, "epochs": 3, "starts": 3, "steps": 100, "classes": "100"},
    "paper": {"images": 0, "tested": 0, "epochs": 0, "starts": 3, "steps": 0, "classes": "100"},
}
NETWORKS = {"cifar10": ("lenet", 5), "mnist": ("lenet-caffe", 2), "": ("lenet-caffe", 5)}  # a spec, and its epochs
NOTES = (
    "The paper's figures are of AlexNet on the 50,000 validation images of ImageNet; its fooling images are evolved "
    "CPPNs, those here are climbed to. Confidence is the largest probability; of a climbed image, that of its class.",
    "Medians have the interval of order statistics. AUROC: how likely a fooling image is the stranger of a pair "
    "(Newcombe's interval); passes: fooling images that a threshold lets through which 95 % of real ones pass (FPR at "
    "95 % TPR).",
)


def run(
    *,
    scale: str,
    data: str | None,
    out: Path,
    seed: int = 0,
    device: str = "auto",
    basket: str | None = None,
    quiet: bool = False,
    network: str = "",
    epochs: int = 0,
    images: int = -1,
    starts: int = 0,
    steps: int = 0,
    classes: str = "",
    fooling: str = "",
) -> Result:
    """network: a spec of the zoo, trained twice. epochs, starts, steps: 0 takes the scale's own. images: train on so
    many (0: all). classes: to climb to; how many, or names with ; between them. fooling: a run whose found images are
    judged too; it must be of the networks that `basket` gives (a folder, or specs with blanks between them)."""
    plan = dict(SCALES[scale])
    given = {"epochs": epochs, "starts": starts, "steps": steps, "classes": classes}
    plan |= {name: value for name, value in given.items() if value} | ({"images": images} if images >= 0 else {})
    if fooling and basket is None:
        raise UserError("fooling=RUN is of networks that are there already: give them with --basket")
    result = Result("confidence", scale, {**({} if basket else {"in place of": "ImageNet"}), **plan}, seed)
    drawn: dict[str, dict[str, Tensor]] = {}
    for named in _data(data, scale, basket):
        spec, passes = NETWORKS.get(named, NETWORKS[""])
        own = plan | {"network": network or spec, "epochs": plan["epochs"] or passes}
        stage = open_stage(named, own, out / named.partition(":")[0], seed=seed, device=device, basket=basket,
                           quiet=quiet)  # fmt: skip
        settings = {"networks": list(stage.basket.names), "judged": stage.suspect}
        result.settings[named] = settings if basket else settings | {"epochs": own["epochs"]}
        drawn[named] = _one(result, stage, own, seed, fooling, quiet)
    result.figures.append(figures.confidences(drawn, out))
    result.notes += NOTES
    return result


def _data(data: str | None, scale: str, basket: str | None) -> list[str]:
    if data is not None or basket is not None or scale == "quick":
        return [data_for(data, scale)]
    return [name for name in ("cifar10", "mnist") if KNOWN[name].find() is not None] or ["digits"]


def _one(result: Result, stage: Stage, plan: dict[str, Any], seed: int, run: str, quiet: bool) -> dict[str, Tensor]:
    """The rows of one data set; by kind of image, its confidences."""
    labels, logits = real_logits(stage)
    sure, right = logits[0].double().softmax(-1).amax(-1), answers(logits)[0] == labels
    kinds = {"real, all": sure, "real, right": sure[right], "real, wrong": sure[~right]}
    table = f"{stage.named}: median confidence, %"
    result.rows.append(share_row("Accuracy", f"{stage.named}, {stage.suspect}, %", None, int(right.sum()), len(labels)))
    result.rows += [
        median_row(table, name, PAPER[name.partition(", ")[2]], 100 * values) for name, values in kinds.items()
    ]
    fools: dict[str, Tensor] = {}
    places = chosen_classes(stage.basket, plan["classes"], seed)
    for way in CLIMBED:
        climbed = climb(stage, way, places, plan["starts"], seed, plan["steps"])
        kept = ~climbed.came.invalid.cpu()
        kinds[f"ascent, {FIGURES[way]}"] = climbed.came.confidence.cpu()[kept]
        fools[f"ascent, {FIGURES[way]}"] = climbed.came.logits.cpu()[:, kept]
    if run:
        found = open_source(run, "test", quiet)
        group = suspect_first(stage.basket, stage.suspect, found)
        fools["run"] = judge_source(group, found, None, seed, quiet)[2]
        kinds["run"] = fools["run"][0].double().softmax(-1).amax(-1)
    for name in fools:
        result.rows.append(median_row(table, f"fooling: {name}", PAPER["fooling"], 100 * kinds[name]))
    for name, said in fools.items():
        if said.shape[1]:
            result.rows += _told(f"{stage.named}: can it be told? {name}", logits, said)
    return kinds


def _told(table: str, real: Tensor, fooling: Tensor) -> list[Row]:
    n = real.shape[1] + fooling.shape[1]
    rows = []
    for one in told_apart(real, fooling):
        rows.append(Row(table, f"{one.score}: AUROC", None, one.auroc, one.low, one.high, n))
        passes, low, high = (100 * share for share in (one.passes, one.passes_low, one.passes_high))
        rows.append(Row(table, f"{one.score}: fooling images that pass, %", None, passes, low, high, n))
    return rows
