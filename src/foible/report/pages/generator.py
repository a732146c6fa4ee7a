"""The page of a generator: how well it does, what it makes, how it learnt."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from foible import __version__
from foible.disk import write_with_folder
from foible.figures import COLOURS, new, save, style
from foible.generators.build import family_of
from foible.generators.files import FILE, WEIGHTS, read_record
from foible.report.page import template
from foible.report.pictures import whole

PAGE = "report.html"
PICTURES = {
    "samples": "Samples: codes drawn from the standard normal, decoded; the first, not chosen",
    "reconstructions": "Held-out images, in every second row, and below each what is decoded from its code",
    "square": "Decodings over the latent square from −3 to 3, the first number to the right, the second upwards",
    "losses": "Losses after each epoch, on training and held-out images",
    "divergence": "Divergence of each latent dimension from the standard normal, largest first",
}


def write_generator(folder: Path) -> Path:
    """Write report.html into a generator's folder, from what is there: no image is made again."""
    record = read_record(folder)
    told, measures = summary(record), record["measures"]
    _losses(record["history"], folder)
    if measures is not None and measures["divergence"]:
        _divergence(measures["divergence"], folder)
    files = [(text, folder / f"{name}.png") for name, text in PICTURES.items()]
    figures = [(text, whole(file.read_bytes())) for text, file in files if file.is_file()]
    rows = [(name, str(value)) for name, value in told.items() if name != "collapsed"]
    page = template("generator.html").render(
        title=f"Foible generator: {folder.resolve().name}", headline=f"{record['spec']} on {_data(record)}",
        words=[_words(told)], columns=("", "value"), rows=rows,
        notes=[
            "Errors are mean squares of a pixel in [0, 1]. The mean image's is what a decoder reaches that ignores its "
            "code. Active are dimensions of more than 0.01 nats. Spread is how much samples differ, as a share of how "
            "much images do.",
        ],
        files=(FILE, WEIGHTS), filters=(), specs=(), versions=[f"foible {__version__}"], schema_version=None,
        figures=[(text, one) for text, one in figures if one is not None],
        adversarial=family_of(record["spec"]).adversarial,
        config_json=json.dumps({**record["config"], **record["training"]}, indent=2, sort_keys=True, default=str),
    )  # fmt: skip
    write_with_folder(folder / PAGE, page.encode("utf-8", "replace"))
    return folder / PAGE


def summary(record: dict[str, Any]) -> dict[str, Any]:
    """What there is to say of a generator, by name; a few digits are enough."""
    measures = record["measures"] or {}
    told: dict[str, Any] = {"spec": record["spec"], "data": _data(record), "latent": record["latent"]}
    told["images"] = "×".join(map(str, record["shape"]))
    told |= {name: record["training"].get(name) for name in ("parameters", "epochs", "steps")}
    for split, kind in (("train", "training"), ("test", "held-out")):
        curve: list[float] = next(iter(record["history"].get(split, {}).values()), [])
        told[f"{kind} loss"] = round(curve[-1], 2) if curve else None
    told["reconstruction error"] = _digits(measures.get("error"))
    told["error of the mean image"] = _digits(measures.get("mean_image_error"))
    told["active dimensions"] = measures.get("active") if measures.get("divergence") else None
    told["divergence"] = _digits(sum(measures["divergence"])) if measures and measures["divergence"] else None
    told["spread of samples"] = _digits(measures.get("spread"))
    return told | {"collapsed": record["collapsed"]}


def _words(told: dict[str, Any]) -> str:
    if told["collapsed"]:
        return f"Of no use: {told['collapsed']}."
    if told["reconstruction error"] is None:
        return f"It draws and does not encode. Its samples vary {told['spread of samples']} times as much as images do."
    return (
        f"{told['active dimensions']} of {told['latent']} latent dimensions tell something of the image. "
        f"Reconstructions of held-out images are wrong by {told['reconstruction error']}, the mean image in place of "
        f"each by {told['error of the mean image']}."
    )


def _data(record: dict[str, Any]) -> str:
    return str(record["config"].get("data"))


def _digits(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.4g}")


def _losses(history: dict[str, dict[str, list[float]]], out: Path) -> None:
    parts = [part for part in history.get("train", {}) if history["train"][part]]
    if not parts:
        return
    with style():
        figure, axes = new(1, len(parts), size=(2.6 * len(parts) + 0.4, 2.6))
        for axis, part in zip(axes[0], parts, strict=True):
            for split, kind in (("train", "training"), ("test", "held-out")):
                curve = history.get(split, {}).get(part, [])
                axis.plot(range(1, len(curve) + 1), curve, label=kind, marker="o" if len(curve) < 12 else "")
            axis.set_title(part)
            axis.set_xlabel("epoch")
        axes[0, 0].set_ylabel("nats an image")
        axes[0, 0].legend()
        save(figure, out, "losses")


def _divergence(values: list[float], out: Path) -> None:
    with style():
        figure, axes = new(1, 1, size=(min(6.4, 1.2 + 0.4 * len(values)), 2.6))
        axes[0, 0].bar(range(1, len(values) + 1), sorted(values, reverse=True), color=COLOURS[0], width=0.8)
        axes[0, 0].set_xlabel("latent dimension")
        axes[0, 0].xaxis.get_major_locator().set_params(integer=True)
        axes[0, 0].set_ylabel("nats")
        save(figure, out, "divergence")
