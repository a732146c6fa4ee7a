"""The options of a network's spec: which there are for each kind, and preprocessing as the user says it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from foible.errors import UserError
from foible.networks.load.opened import Opened
from foible.networks.preprocess import Preprocess, scaled
from foible.text import did_you_mean

HOW = ("preprocess", "mean", "std", "scale", "size", "resize", "interpolation")


def check(options: Mapping[str, str], own: tuple[str, ...], text: str) -> None:
    """Refuse what this kind of network does not take. `own`: its options beside those of preprocessing."""
    known = (*own, *HOW)
    for key in options:
        if key not in known:
            raise UserError(f"{text!r} has no option {key!r}{did_you_mean(key, known)}; it takes {', '.join(known)}")
    if options.get("preprocess", "inside") != "inside" or {"preprocess", "mean"} <= options.keys():
        raise UserError(
            f"{text!r}: expected preprocess=inside without mean= and std= (the network takes pixels in [0, 1] and "
            "normalises itself), or mean= and std= without preprocess="
        )


def truth(options: Mapping[str, str], key: str, text: str) -> bool:
    """An option that is true or false; false where it is not given."""
    value = options.get(key, "false").lower()
    if value not in ("true", "false", "1", "0", "yes", "no"):
        raise UserError(f"{text!r}: {key} is {options[key]!r}: expected true or false")
    return value in ("true", "1", "yes")


def sides(options: Mapping[str, str], key: str, text: str) -> tuple[int, int] | None:
    """(height, width) from `N` or `WIDTHxHEIGHT`, or None where it is not given."""
    if key not in options:
        return None
    try:
        numbers = [int(side) for side in options[key].lower().split("x")]
        if len(numbers) > 2:
            raise ValueError(f"{options[key]!r} has {len(numbers)} sides")
    except ValueError as error:
        raise UserError(
            f"cannot read the preprocessing of {text!r}: {key} is {options[key]!r}: expected N or WIDTHxHEIGHT"
        ) from error
    return numbers[-1], numbers[0]


def preprocess(options: Mapping[str, str], opened: Opened, text: str) -> Preprocess:
    """How the network's images are prepared: as its files say, but for what the user says."""
    base = opened.preprocess
    if base is None:
        if not options.keys() & set(HOW):
            reason = f" ({opened.why})" if opened.why else ""
            missing = [] if "classes" in options or opened.classes else ["&classes=FILE for the names of its outputs"]
            missing += [] if opened.size else ["&size=224 where photographs of any size are judged"]
            also = f"; and {', and '.join(missing)}" if missing else ""  # all at once: one refusal, not three
            raise UserError(
                f"{text!r} does not say how its images are preprocessed{reason}: add ?preprocess=inside if the network "
                "takes pixels in [0, 1] and normalises itself, or ?mean=0.5,0.5,0.5&std=0.2,0.2,0.2&size=224" + also
            )
        base = Preprocess(size=opened.size)
    size = sides(options, "size", text)
    changes: dict[str, Any] = {}
    if size is not None and size != base.size:
        changes["size"] = size
        if isinstance(base.resize, int) and base.size is not None:  # the same share of the photograph as before
            changes["resize"] = round(base.resize * min(size) / min(base.size))
        elif base.resize is not None:
            changes["resize"] = None if base.resize != base.size else size
    if options.get("resize") == "fit":
        changes["resize"] = None
    elif "resize" in options:
        whole = sides(options, "resize", text)
        changes["resize"] = whole if "x" in options["resize"].lower() else (whole or (0,))[0]
    if "interpolation" in options:
        changes["interpolation"] = options["interpolation"]
    return replace(base, **changes, **_normalisation(options, opened.channels, text))


def _normalisation(options: Mapping[str, str], channels: int, text: str) -> dict[str, Any]:
    try:
        said = {key: tuple(float(v) for v in options[key].split(",")) for key in ("mean", "std") if key in options}
        scale = float(options["scale"]) if "scale" in options else None
    except ValueError as error:
        raise UserError(f"cannot read the preprocessing of {text!r}: {error}") from error
    if "preprocess" in options or (scale is not None and not said):
        said = {"mean": (), "std": ()}  # pixels as they are, or times the scale, whatever the files say
    if scale is None:
        return said
    if not 0 < scale < float("inf"):
        raise UserError(f"{text!r}: scale is {options['scale']!r}: expected the largest value of a pixel, 255 or 1")
    return scaled(said.get("mean", ()), said.get("std", ()), scale, channels)
