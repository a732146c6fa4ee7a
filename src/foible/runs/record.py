"""`config.json` of a run, which may be anybody's: what some code reads has a form, and the hash is computed.

Fields that came with a later version may be missing, where the code has a default for them.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from foible.errors import UserError
from foible.records import COUNT, NUMBER, POSITIVE, TEXT, One, check, read_json, short, whole, word
from foible.text import shown
from foible.views import FORM as VIEW

CONFIG = "config.json"
ADVICE = "give another --out, or restore it"
MOST_UNITS, MOST_LANES = 10_000_000, 99_999_999_999

NETWORKS = {str: TEXT}  # what is known of each network, by its name
MAYBE = (None, POSITIVE)
PIXELS = One(
    lambda text: isinstance(text, str) and re.fullmatch(r"[0-9]{1,5}([xX][0-9]{1,5})?", text) is not None,
    "pixels such as 224 or 320x240",
)
CANVAS_GIVEN = (None, PIXELS)
SHARED = {
    "recipe": TEXT, "data": TEXT, "data_sha256": TEXT, "split": TEXT, "canvas?": (None, VIEW),
    "canvas_given?": CANVAS_GIVEN, "networks": NETWORKS, "lists?": NETWORKS, "preprocess": {str: dict},
    "unit?": POSITIVE, "device": TEXT,
}  # fmt: skip
SUSPECTS = {"suspects": [TEXT], "peers": [TEXT]}

# The settings of each recipe, as they are in config.json.
FORMS: dict[str, dict[str, Any]] = {
    "hunt": {
        **SHARED, **SUSPECTS, "trials": POSITIVE, "seed": int, "precision?": word("float32", "bf16"), "budget?": MAYBE,
        "unlabelled?": bool, "atlas?": bool, "shrink?": bool, "realism?": TEXT, "space": TEXT, "objective": TEXT,
        "search": TEXT, "space_sha256?": TEXT, "objective_sha256?": TEXT, "search_sha256?": TEXT, "together?": POSITIVE,
    },
    "compare": {**SHARED, "canvas_given": CANVAS_GIVEN, "names": [TEXT], "old": TEXT, "new": TEXT, "labelled": bool},
    "distort": {
        **SHARED, "canvas_given": CANVAS_GIVEN, "source": TEXT, "target": TEXT, "norm": word("l2", "linf"),
        "layer": (None, TEXT), "images": POSITIVE, "seed": int, "likeliest": MAYBE, "wrong": bool, "lattice": bool,
        "budget": MAYBE, "method": TEXT, "method_sha256?": TEXT, "unlabelled": bool, "rows": POSITIVE,
        "masking?": [TEXT],
    },
    "rank": {
        **SHARED, **SUSPECTS, "canvas_given": CANVAS_GIVEN, "labels": bool, "top": POSITIVE,
        "label": word("consensus", "people"), "realism": TEXT, "peer_confidence": NUMBER, "suspect_confidence": NUMBER,
    },
}  # fmt: skip
FORMS["fool"] = {
    **SHARED, "suspects": [TEXT], "runs": POSITIVE, "seed": int, "targets": [whole(0, 10**6)], "encoding": TEXT,
    "objective": TEXT, "generations?": POSITIVE, "population?": POSITIVE, "encoding_sha256?": TEXT,
}  # fmt: skip
FORMS["boundary"] = {
    **SHARED, "space": TEXT, "space_sha256?": TEXT, "ends": TEXT, "ends_sha256?": TEXT, "steps": POSITIVE,
    "samples": POSITIVE, "sure": NUMBER, "candidates": COUNT, "seed": int, "unlabelled": bool,
    "pairs": [[whole(-1, 10**6)]],
}  # fmt: skip
# How far a run goes: no row depends on it, so that a run may be extended. What was counted on the way comes second.
EXTENTS: dict[str, tuple[str, ...]] = {
    "hunt": ("trials",), "distort": ("images", "drawn", "chosen"), "fool": ("runs",)
}  # fmt: skip
OLD_NAMES = {"pool": "rank"}  # recipes as runs of 0.1.0 call them
FORMS["pool"] = FORMS["rank"]

# Where a run found its parts. Specs: what they name is judged where it is opened.
PLACES = {"basket": [TEXT], "data": TEXT, "device": TEXT, "trust?": bool, "recipe?": TEXT}
WHERE: dict[str, dict[str, Any]] = {
    "hunt": {**PLACES, "space": TEXT, "objective": TEXT, "search": TEXT, "realism?": TEXT},
    "compare": PLACES,
    "distort": {**PLACES, "method": TEXT},
    "rank": {**PLACES, "realism?": TEXT},
    "fool": {**PLACES, "encoding": TEXT, "objective": TEXT},
    "boundary": {**PLACES, "space": TEXT},
}
WHERE["pool"] = WHERE["rank"]
ACCURACY = {
    **dict.fromkeys(("right", "n"), COUNT), **dict.fromkeys(("share", "low", "high", "chance"), NUMBER),
    "near_chance": bool, "far_behind?": bool, "hint?": TEXT,
}  # fmt: skip
NAMED = {  # settings that name networks
    "hunt": ("suspects", "peers"), "compare": ("names", "old", "new"), "distort": ("source",),
    "rank": ("suspects", "peers"), "pool": ("suspects", "peers"), "fool": ("suspects",),
}  # fmt: skip


def extents(settings: Mapping[str, Any]) -> tuple[str, ...]:
    """The settings that say how far a run goes. Runs of earlier versions have a `unit` among their settings, and their
    hash counts everything: they go as far as they went."""
    return () if "unit" in settings else EXTENTS.get(str(settings.get("recipe")), ())


def settings_hash(settings: Mapping[str, Any]) -> str:
    """Twelve hex digits that change with any setting that a row depends on."""
    aside = extents(settings)
    return whole_hash({name: value for name, value in settings.items() if name not in aside})


def whole_hash(settings: Mapping[str, Any]) -> str:
    """The same, of settings that say how far a run goes too."""
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:12]


def further(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Of the settings of the same rows those that go further."""

    def reach(settings: dict[str, Any]) -> list[int]:
        values = (settings.get(name) for name in extents(settings))
        return [value if isinstance(value, int) else 0 for value in values]  # a shard may be anybody's

    return max(one, other, key=reach)


def read_config(folder: Path) -> dict[str, Any]:
    """The settings of a run, their hash, where its parts were found, and how many lanes its parts have."""
    file = folder / CONFIG
    try:
        config = read_json(file, ADVICE)
        check(config, {"hash": TEXT, "settings": {"recipe": TEXT}, "where": dict}, str(file))
    except (FileNotFoundError, NotADirectoryError):
        raise UserError(f"{str(folder)!r} is not a run: it has no {CONFIG}") from None
    except UserError as error:
        raise UserError(f"{file} is damaged ({str(error).removeprefix(str(file)).strip()}): {ADVICE}") from error
    recipe = config["settings"]["recipe"]
    check_hash(config, folder)
    # Of a recipe of somebody's own there is what all recipes have.
    counted = {"units": whole(0, MOST_UNITS)} if "lanes" not in config else {"lanes": [whole(0, MOST_LANES)]}
    form = {"settings": FORMS.get(recipe, SHARED), "where": WHERE.get(recipe, PLACES), "numbered?": POSITIVE, **counted}
    told = {"notes?": [TEXT], "clean?": (None, {str: ACCURACY}), "specs?": NETWORKS}
    check(config, {**form, **told}, str(file))
    _check_names(config["settings"], file)
    return dict(config)


def check_hash(config: dict[str, Any], folder: Path) -> None:
    """Refuse settings that are not those that the hashes were computed from. Earlier versions have but one."""
    for name, computed in (("hash", settings_hash), ("whole", whole_hash)):
        known = computed(config["settings"])
        if config.get(name, known) != known:
            raise UserError(
                f"{folder / CONFIG} was changed after the run was made: its settings have the hash {known}, it says "
                f"{short(config[name])}; restore it, or make the run again"
            )


def _check_names(settings: dict[str, Any], file: Path) -> None:
    """Every network that the settings speak of is one of those that they list."""
    known: dict[str, str] = settings["networks"]
    given: list[str] = list(known)
    for key in NAMED.get(settings["recipe"], ()):
        given += [settings[key]] if isinstance(settings[key], str) else settings[key]
    for name in given:
        if name not in known:
            raise UserError(f"{file} speaks of a network {shown(name)[:60]!r}, which it does not list: {ADVICE}")
        if name not in settings["preprocess"]:
            raise UserError(f"{file} does not say how {shown(name)[:60]!r} sees images: {ADVICE}")
