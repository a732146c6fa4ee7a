"""Numbers and names as a reader wants them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

_NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_UNITS = {"°", "%", "px", "pixel", "pixels", "swaps", "deg", "EV"}
_SPACES = {
    "affine": "affine changes", "photometric": "changes of light", "crop": "crops", "swaps": "pixel swaps",
    "pixels": "changes of single pixels", "corrupt": "corruptions",
}  # fmt: skip
_FIRST = (
    "space",
    "objective",
    "peer confidence",
    "suspect confidence",
    "search",
    "patience",
    "trials",
    "seed",
)
_APART = (  # the report says them elsewhere
    "recipe", "data", "split", "networks", "suspects", "canvas", "preprocess", "names", "old", "new", "classes",
    "lists",
)  # fmt: skip
_TABLES = ("space", "objective", "search")
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_SPACE = "\u00a0"  # does not break a line


def number(value: float, digits: int = 0) -> str:
    """1234.5 as 1,234 or 1,234.5; minus as a minus."""
    return "–" if value != value else f"{value:,.{digits}f}".replace("-", "−")


def compact(count: int) -> str:
    """A count in at most four characters, for a small cell; nothing for 0."""
    for size, letter in ((999_500, "M"), (1000, "k")):
        if count >= size:
            scaled = count / (1_000_000 if letter == "M" else 1000)
            return f"{scaled:.{0 if scaled >= 9.95 else 1}f}{letter}"
    return str(count or "")


def count_word(count: int) -> str:
    return _NUMBERS[count] if 0 <= count < len(_NUMBERS) else number(count)


def percent(share: float, digits: int = 1) -> str:
    return f"{number(100 * share, digits)}{_SPACE}%"


def probability(value: float | None) -> str:
    """Two digits; never 1.00 for what is not certain."""
    if value is None or value != value:
        return "–"
    return ">0.99" if 0.995 <= value < 1 else "<0.01" if 0 < value < 0.005 else f"{value:.2f}"


def least(values: Iterable[float]) -> str:
    """The lowest of some probabilities."""
    return probability(min((value for value in values if value == value), default=None))


def brief(values: Iterable[float]) -> str:
    """The same in four characters."""
    return least(values).replace(">", "").replace("<0.01", "0.00")


def split_unit(key: str) -> tuple[str, str]:
    """The name and the unit in a key of `change`: "rotation °" is ("rotation", "°")."""
    name, _, unit = key.rpartition(" ")
    return (name, unit) if name and unit in _UNITS else (key, "")


def _amount(value: float, unit: str) -> str:
    size = abs(value)
    text = f"{size:.0f}" if size >= 99.5 else f"{size:.1f}" if size >= 0.95 or unit in _UNITS else f"{size:.2f}"
    return ("" if float(text) == 0 else "−" if value < 0 else "+") + text


def signed(value: float, unit: str = "") -> str:
    """A change with its sign and unit, to three digits or so."""
    return _amount(value, unit) + (unit if unit in ("", "°") else _SPACE + unit)


def change_text(change: Sequence[tuple[str, float | None]] | None) -> str:
    """A whole change in a line; what rounds to nothing is left out, and x and y of one thing are a pair."""
    values = {split_unit(key): value for key, value in change or () if value is not None and value == value}
    texts = []
    for (name, unit), value in values.items():
        if name.endswith(" y") and (f"{name[:-1]}x", unit) in values:
            continue  # said with its x
        pair = values.get((f"{name[:-1]}y", unit)) if name.endswith(" x") else None
        text = signed(value, unit) if pair is None else f"{_amount(value, unit)}/{signed(pair, unit)}"
        if "+" in text or "−" in text:
            texts.append(f"{name if pair is None else name[:-2]} {text}".replace(" ", _SPACE))
    return ", ".join(texts)


def plus(value: float, digits: int = 1) -> str:
    """A number with its sign; none for what rounds to 0."""
    text = number(abs(value), digits)
    return text if text == "–" or not text.strip("0.") else ("−" if value < 0 else "+") + text


def p_value(p: float) -> str:
    """A chance with two digits or so, and as a power of ten where it is very small."""
    if p != p:
        return "–"
    if p >= 0.0995:
        return f"{p:.2f}"
    if p >= 0.001:
        return f"{p:.3f}"
    if p < 1e-300:
        return "<\u00a010⁻³⁰⁰"
    digits, _, power = f"{p:.1e}".partition("e")
    return f"{digits}{_SPACE}×{_SPACE}10{str(int(power)).translate(_RAISED)}"


def canvases(configs: Mapping[str, Mapping[str, Any]]) -> str:
    """The images that the moves act on: "224×224"; "" where the settings do not say."""
    sizes = (config["canvas"].get("size") for config in configs.values() if isinstance(config.get("canvas"), Mapping))
    return " and ".join(dict.fromkeys(filter(None, map(pixels, sizes))))


def pixels(size: object) -> str:
    """[height, width] as width×height; "" for anything else."""
    if isinstance(size, list | tuple) and len(size) == 2 and all(isinstance(side, int) for side in size):
        return f"{size[1]}×{size[0]}"
    return ""


def space_words(configs: Mapping[str, Mapping[str, Any]]) -> str:
    """What the space of the search holds: "affine changes of at most 15°"; of a chain, "crops and affine changes". Only
    a bound makes a change small: what a search may add up to is not said to be."""
    spaces = {str(config.get("space") or "") for config in configs.values()}
    if len(spaces) != 1:
        return "changes of the image"
    parts = spaces.pop().split("+")
    names = [part.partition("?")[0].rpartition(":")[2] for part in parts]  # of FILE.py:NAME, the name
    if len(names) > 1 and not all(name in _SPACES for name in names):
        return f"changes of the spaces {' and '.join(names)}"
    told = [
        _SPACES.get(name, f"changes of the space {name}" if name else "changes of the image") + _bounds(part)
        for name, part in zip(names, parts, strict=True)
    ]
    return told[0] if len(told) == 1 else f"{', '.join(told[:-1])} and {told[-1]}"


def _bounds(spec: str) -> str:
    """How far the whole way of a space may lead, as its spec says: " of at most 15°, 15 % and 22.4 px"."""
    units = {"degrees": "°", "percent": f"{_SPACE}%", "pixels": f"{_SPACE}px"}
    bounds = [value + units[name] for name, value in re.findall(r"[?&]most_(degrees|percent|pixels)=(\d[\d.]*)", spec)]
    if not bounds:
        return ""
    return f" of at most {' and '.join(filter(None, (', '.join(bounds[:-1]), bounds[-1])))}"


def settings(configs: Mapping[str, Mapping[str, Any]], limit: int = 24) -> list[tuple[str, str]]:
    """The settings that fit in a line each; where runs differ, their values side by side."""
    values: dict[str, dict[str, None]] = {}
    for config in configs.values():
        for key, value in config.items():
            if key in _APART or key.endswith("sha256"):
                continue
            inner = value.items() if isinstance(value, Mapping) and len(value) <= 8 else [("", value)]
            for name, setting in inner:
                if setting is None or setting is False or setting == [] or isinstance(setting, Mapping):
                    continue
                text = setting if isinstance(setting, str) else json.dumps(setting, ensure_ascii=False)
                label = f"{key} {name}".strip().replace("_", " ")
                if label in _TABLES:  # dissent?peer_confidence=0.9
                    text = text.translate({ord("?"): ", ", ord("&"): ", ", ord("="): " ", ord("_"): " "})
                values.setdefault(label, {}).setdefault(shorten(text, 80))
    ordered = sorted(values, key=lambda key: _FIRST.index(key) if key in _FIRST else len(_FIRST))
    return [(key, shorten(" | ".join(values[key]), 160)) for key in ordered][:limit]


def shorten(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"
