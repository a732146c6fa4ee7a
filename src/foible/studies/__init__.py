"""Studies: the tables and figures of the papers, run again, with the paper's figures beside the measured ones.

Nothing heavy is imported here, so that `foible --help` answers at once; a study is imported when it runs.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foible.errors import UserError
from foible.specs import bind
from foible.text import did_you_mean

if TYPE_CHECKING:
    from foible.studies.common import Result

SCALES = ("quick", "paper")

# name -> (module with `run`, what it shows)
STUDIES: dict[str, tuple[str, str]] = {
    "checkerboard": (
        "foible.studies.peer_pressure.checkerboard.study",
        "Paper 1, Figs. 2–4: where five small networks on a checkerboard disagree with all their peers.",
    ),
    "table1": (
        "foible.studies.peer_pressure.table1.study",
        "Paper 1, Table 1: success, moves and inferences of hill climbing against five MLPs.",
    ),
    "table2": (
        "foible.studies.peer_pressure.table2",
        "Paper 1, Table 2, Fig. 1: pixel swaps with 0 to 4 peers; high-value and low-value mistakes.",
    ),
    "every-network": (
        "foible.studies.peer_pressure.every_network",
        "Paper 1, Figs. 5, 6, 9: sessions, and one image that every network in turn gets wrong.",
    ),
    "deep": (
        "foible.studies.peer_pressure.deep.study",
        "Paper 1, Sec. 4, Fig. 8: deep networks on colour images, and what each is sensitive to.",
    ),
    "searches": (
        "foible.studies.peer_pressure.searches.study",
        "Paper 1, future work 4 and 5: other searches, success against inferences.",
    ),
    "peers": (
        "foible.studies.peer_pressure.peers",
        "Paper 1, future work 2: 1 to 20 peers; success, coverage and reliability.",
    ),
    "distortion": (
        "foible.studies.intriguing.distortion.study",
        "Paper 3, Tables 1 and 2, Figs. 5 and 7: minimal distortions, and who they transfer to.",
    ),
    "split-transfer": (
        "foible.studies.intriguing.split_transfer",
        "Paper 3, Tables 3 and 4: transfer between networks trained on disjoint halves of the data.",
    ),
    "units": (
        "foible.studies.intriguing.units",
        "Paper 3, Figs. 1–4: what excites a unit, and what excites a random direction.",
    ),
    "spectrum": (
        "foible.studies.intriguing.spectrum.study",
        "Paper 3, Table 5: frame bounds of every layer, and growth along the found distortions.",
    ),
    "frozen-features": (
        "foible.studies.intriguing.frozen_features.study",
        "Paper 3, Fig. 6: a one-against-rest classifier on frozen, unsupervised features, distorted.",
    ),
    "sympathetic": (
        "foible.studies.sympathetic.study",
        "Paper 2, Sec. 3.1 and 3.2, Figs. 2–5, 7–9: mistakes mended in the latent space of a generator.",
    ),
    "traits": (
        "foible.studies.sympathetic.traits",
        "Paper 2, Table 1, Fig. 6: mistakes of binary classifiers mended, trait by trait.",
    ),
    "fooling": (
        "foible.studies.easily_fooled.fooling",
        "Paper 5, Sec. D, Fig. S4: images that evolve until a network is sure of them, run after run.",
    ),
    "fooling-transfer": (
        "foible.studies.easily_fooled.transfer",
        "Paper 5, Sec. A, Table S1, Fig. S1: images that fool one network, shown to another.",
    ),
    "fooling-ensemble": (
        "foible.studies.easily_fooled.ensemble",
        "Paper 5, Sec. B: images that evolve against the mean of three different networks.",
    ),
    "fooling-retrain": (
        "foible.studies.easily_fooled.retrain",
        "Paper 5, Sec. C, Table S2: networks that learn a class of fooling images, again and again.",
    ),
    "ascent": (
        "foible.studies.easily_fooled.ascent",
        "Paper 5, Sec. E, Figs. S5–S9: images that climb to a class, with and without regularisation.",
    ),
    "confidence": (
        "foible.studies.easily_fooled.confidence",
        "Paper 5, Sec. F: how sure a network is of real images, right and wrong, and of fooling ones.",
    ),
    "labels": (
        "foible.studies.labels.study",
        "CIFAR-10H: where all networks disagree with the label, how often people side with them.",
    ),
    "boundary": (
        "foible.studies.boundary.study",
        "Paper 4, Tables 2–5, Figs. 1–4: images between digits (--data mnist); real people (CIFAR-10H).",
    ),
    "uncertain": (
        "foible.studies.boundary.uncertain",
        "Paper 4, Sec. 5: networks that learn what people say, labels, smoothed labels, or other networks.",
    ),
}

# What every study takes; the rest of its `run` are options of its own.
_COMMON = ("scale", "data", "out", "seed", "device", "basket", "quiet")


def run_study(
    name: str,
    *,
    scale: str = "quick",
    data: str | None = None,
    out: str | Path | None = None,
    seed: int = 0,
    device: str = "auto",
    basket: str | None = None,
    quiet: bool = False,
    options: Mapping[str, str] | None = None,
) -> Result:
    """Run a study and write `result.json`, `table.md` and its figures into `out` (default: `runs/NAME-SCALE`).

    scale: "quick" (less than a minute on two cores) or "paper" (as many trials as the paper).
    options: the study's own, as text; see its module's `run`.
    """
    if name not in STUDIES:
        raise UserError(f"there is no study {name!r}{did_you_mean(name, STUDIES)}; there are {', '.join(STUDIES)}")
    if scale not in SCALES:
        raise UserError(f"scale is {scale!r}: expected {' or '.join(SCALES)}")
    folder = default_folder(name, scale) if out is None else Path(out)
    run = import_module(STUDIES[name][0]).run
    own = _checked(run, options or {}, f"study {name}")
    new = not folder.exists()
    _claim(folder, name, scale)
    from foible.figures import style
    from foible.studies.common import write

    try:
        with style():
            result: Result = run(
                scale=scale, data=data, out=folder, seed=seed, device=device, basket=basket, quiet=quiet, **own
            )
    except UserError:
        if new:
            with suppress(OSError):  # it holds something by now
                folder.rmdir()
        raise
    write(result, folder)
    return result


def default_folder(name: str, scale: str) -> Path:
    """Where a study goes when nobody says."""
    return Path("runs") / f"{name}-{scale}"


def own_options(name: str) -> tuple[str, dict[str, Any]]:
    """What a study says of its own options, and these with their defaults."""
    run = import_module(STUDIES[name][0]).run
    return inspect.getdoc(run) or "", _defaults(run)


def _defaults(run: Any) -> dict[str, Any]:
    return {
        key: parameter.default
        for key, parameter in inspect.signature(run).parameters.items()
        if key not in _COMMON and parameter.kind is not inspect.Parameter.VAR_KEYWORD
    }


def _checked(run: Any, options: Mapping[str, str], what: str) -> dict[str, Any]:
    known = _defaults(run)
    for key in options:
        if key not in known:
            takes = f"it takes {', '.join(known)}" if known else "it takes none"
            raise UserError(f"{what} has no option {key!r}{did_you_mean(key, known)}; {takes}")
    return bind(run, options, what)


def _claim(folder: Path, name: str, scale: str) -> None:
    """Make the folder; refuse one that holds another study, whose work would get mixed up with this one's."""
    from foible.records import TEXT, check, read_json
    from foible.text import shown

    for path in (folder, *folder.parents):
        if path.exists() and not path.is_dir():
            raise UserError(f"{path} is a file: give a folder with --out")
    file = folder / "result.json"
    if file.exists():
        try:
            had = check(read_json(file, "give another --out"), {"study": TEXT, "scale": TEXT}, str(file))
            other = (shown(had["study"]), shown(had["scale"]))
        except (OSError, UserError):
            other = ("something else", "unreadable")
        if other != (name, scale):
            raise UserError(
                f"{folder} holds the study {other[0]} ({other[1]}): give another --out for {name} ({scale})"
            )
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot make the folder {str(folder)!r}: {error.strerror or error}") from error
