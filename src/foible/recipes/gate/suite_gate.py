"""The gate of every pull request: NEW and OLD on a suite's frozen images. Minutes on a CPU, no training data needed.

difference = error(NEW) − error(OLD) on the same images, with Tango's interval, beside what is tolerated

The difference is that of images which were drawn before any network was asked. All others are in the suite because some
network got them right or wrong; where that was OLD or NEW, the difference there tells of the choice (regression to the
mean), and is not printed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from torch import Tensor

from foible.basket import Basket
from foible.basket.accuracy import FEW, Accuracy, answers, diagnoses, hints, suspicious
from foible.class_names import align
from foible.errors import UserError
from foible.findings import Findings
from foible.images import LEAST_ROWS, MOST_JUDGED, decode_png, png_size
from foible.progress import progress
from foible.recipes.gate.checks import (
    MOST_IDS,
    Check,
    Gated,
    check_names,
    check_tolerances,
    decide,
    measure,
    measure_classes,
    watched,
)
from foible.recipes.suite.choosing import DRAWN
from foible.recipes.suite.suite import Suite, labels_of, open_suite
from foible.specs import split_name
from foible.text import some

BATCH = 256
LARGER = 1.2  # than the frozen images: from here on a network is said to see them enlarged
ROOM = LEAST_ROWS * MOST_JUDGED  # pixels of a batch: a suite of a few bytes may hold pictures of many pixels
WANTED = "--network new=SPEC and, to judge both, --network old=SPEC"
DRAWN_IMAGES, ALL_IMAGES = "drawn images", "all images"  # what decides


def gate(
    suite: str | Path,
    networks: Basket | Sequence[str],
    *,
    old: str | None = None,
    tolerance: float = 5.0,
    class_tolerance: float = 20.0,
    device: str = "auto",
    trust: bool = False,
    quiet: bool = False,
) -> Gated:
    """Judge a suite's images again and say whether NEW is worse than OLD by more than is tolerated.

    networks: `new=SPEC`, and `old=SPEC` where OLD is at hand; or a `Basket` of networks with these names. The one that
        is not `old` is NEW, whatever it is called. Without OLD
        its answers are those that the suite's rows record, for the network that `old` names (default: the one that
        the last compare called new, or the first that all rows know).
    tolerance, class_tolerance: percentage points of the images that decide, overall and for any one class.
    """
    check_tolerances(tolerance=tolerance, class_tolerance=class_tolerance)
    if not isinstance(networks, Basket) and not networks:
        check_names((), WANTED)
    frozen = open_suite(suite)
    findings = frozen.findings
    if not isinstance(networks, Basket):
        first = next(_batches(findings.head(1)))[0].shape
        networks = Basket.open(
            _called(networks),
            device=device,
            classes=findings.classes,
            shape=(first[0], first[1], first[2]),
            trust=trust,
        )
    check_names(networks.names, WANTED)
    if set(networks.names) - {"new", "old"}:
        raise UserError(
            f"a suite needs no networks but new and old, given {', '.join(networks.names)}: expected {WANTED}"
        )
    judged_old = "old" in networks.names
    if judged_old and old is not None:
        raise UserError(f"--old {old} and --network old=… both say what OLD is: give one of them")
    known, notes, whole = _labels(frozen, networks)
    if judged_old:
        called, recorded = "old", torch.zeros(len(findings), dtype=torch.int64)
    else:
        called, recorded = _recorded(frozen, old)
    rows = ((known >= 0) & (recorded > -2)).nonzero()[:, 0]
    unrecorded = int(((recorded <= -2) & (known >= 0)).sum())
    if unrecorded:
        notes.append(f"{unrecorded} rows are left out: they do not record what {called} says of them")
    said = _judged(networks, findings, rows, quiet)
    right = said == known[rows]  # (networks, rows)
    new = right[networks.names.index("new")]
    labels = torch.tensor(labels_of(findings))[rows]
    before = right[networks.names.index("old")] if judged_old else recorded[rows] == labels
    tags = [given or [] for given in findings.table.column("tags").take(rows.numpy()).to_pylist()]
    choosers = _choosers(frozen, networks)
    notes += _remarks(networks, said, tags, choosers)
    notes += _enlarged(networks, findings)
    notes += _wrongly_given(networks, findings, rows, said, known[rows])
    checks = _checks(findings.classes, tags, labels, before, new, bool(choosers), tolerance, class_tolerance)
    lost = rows[before & ~new].tolist()[:MOST_IDS]
    ids = findings.table.column("id")
    broken = tuple(ids[row].as_py() for row in lost)
    return Gated(
        "suite", decide(checks, whole=whole), called, tuple(checks), tuple(notes), broken, not judged_old,
        networks.specs_of_all,
    )  # fmt: skip


def _called(networks: Sequence[str]) -> list[str]:
    """The same specs; where one is not `old`, and nobody is called `new`, it is that one."""
    named = [split_name(one) for one in networks]
    if sum(name != "old" for name, _ in named) != 1:
        return list(networks)
    return [f"new={spec}" if name != "old" else f"old={spec}" for name, spec in named]


def _enlarged(networks: Basket, findings: Findings) -> list[str]:
    """A line for each network whose input is larger than the frozen images: that alone may decide a gate."""
    sizes = (png_size(png.as_py()) for png in findings.table.column("image") if png.is_valid)
    width, height = max((size for size in sizes if size is not None), default=(0, 0))
    notes = []
    for name, view in networks.views.items():
        if view is not None and height and view.size[0] > LARGER * height:
            notes.append(
                f"{name} takes images of {view.size[1]}×{view.size[0]}, and the suite's are {width}×{height}: it sees "
                f"them enlarged, which may cost it answers; a comparison with --canvas {max(view.size)} makes a fairer "
                "suite"
            )
    return notes


def _wrongly_given(networks: Basket, findings: Findings, rows: Tensor, said: Tensor, labels: Tensor) -> list[str]:
    """A line for each network near chance on the anchors, which all networks once got right: what it looks like."""
    outcomes = findings.table.column("outcome").take(rows.numpy()).to_pylist()
    held = torch.tensor([outcome == "held" for outcome in outcomes], dtype=torch.bool).nonzero()[:, 0]
    clean = Accuracy(networks.names, networks.classes)
    clean.add(said[:, held], labels[held])
    if any(map(suspicious, clean.rows().values())):
        pictures = next(_batches(Findings(findings.table.take(rows[held[:FEW]].numpy()))))
        alike = [place for place, picture in enumerate(pictures) if picture.shape == pictures[0].shape]
        hints(networks, clean, torch.stack([pictures[place] for place in alike]), labels[held[alike]])
    return diagnoses(clean)


def _labels(suite: Suite, networks: Basket) -> tuple[Tensor, list[str], bool]:
    """(rows,) the right class as the networks count, -1 where they do not know it; notes; whether they know all."""
    findings = suite.findings
    places = align(findings.classes, networks.classes)
    position = torch.tensor([-1 if place is None else place for place in places])
    known = position[torch.tensor(labels_of(findings))]
    notes = list(networks.notes)
    if not bool((known >= 0).any()):
        raise UserError(
            f"no image of the suite {str(suite.path)!r} has a class that the networks know: the suite has "
            f"{some(findings.classes)}, the networks {some(networks.classes)}; give a suite of their task"
        )
    lost = int((known < 0).sum())
    if lost:
        unknown = [name for name, place in zip(findings.classes, places, strict=True) if place is None]
        notes.append(
            f"{lost} of {len(known)} images cannot be judged, so that this cannot pass: the networks do not know their "
            f"classes ({some(unknown)})"
        )
    return known, notes, not lost


def _recorded(suite: Suite, name: str | None) -> tuple[str, Tensor]:
    """OLD from the record: its name, and (rows,) the class it said; -1 where that was no number, -2 without a record.

    Runs may call different networks by one name, and one network by several: what counts is the fingerprint.
    """
    sources = suite.sources
    order = [(source, network) for source in reversed(sources) for network in source["networks"]]
    if name is not None:
        wanted = [(source, network) for source, network in order if network == name][:1]
        if not wanted:
            known = ", ".join(sorted({network for _, network in order}))
            raise UserError(f"no row of the suite records a network {name!r}; they record {known}")
    else:
        named = [(source, source["new"]) for source in reversed(sources) if "new" in source][:1]
        wanted = [
            (source, network)
            for source, network in [*named, *order]
            if all(source["networks"][network] in other["networks"].values() for other in sources)
        ][:1]
        if not wanted:
            raise UserError(
                "no network is recorded by all rows of the suite: give OLD with --network old=SPEC, or name one with "
                f"--old ({', '.join(sorted({network for _, network in order}))})"
            )
    ((source, called),) = wanted
    fingerprint = source["networks"][called]
    names = {
        other["hash"]: next((name for name, print_ in other["networks"].items() if print_ == fingerprint), None)
        for other in sources
    }
    said: list[int] = []
    table = suite.findings.table.select(["config", "networks", "after"])
    for first in range(0, len(table), BATCH):
        for row in table.slice(first, BATCH).to_pylist():
            network = names.get(row["config"])
            place = row["networks"].index(network) if network in row["networks"] else None
            said.append(-2 if place is None else _answer(row["after"][place]))
    if all(answer == -2 for answer in said):
        raise UserError(f"no row of the suite records what {called!r} says: give OLD with --network old=SPEC")
    return called, torch.tensor(said)


def _answer(chances: list[float]) -> int:
    if any(chance is None or chance != chance for chance in chances):
        return -1
    return max(range(len(chances)), key=chances.__getitem__)


def _batches(findings: Findings) -> Iterator[list[Tensor]]:
    """The images in order, so many at a time as fit into memory, whatever their sizes."""
    pictures: list[Tensor] = []
    pixels = 0
    table = findings.table.select(["id", "image"])
    for start in range(0, len(table), BATCH):
        for row in table.slice(start, BATCH).to_pylist():
            picture = decode_png(row["image"], repr(row["id"]), MOST_JUDGED)
            here = picture.shape[1] * picture.shape[2]
            if len(pictures) == BATCH or pixels + here > ROOM:
                yield pictures
                pictures, pixels = [], 0
            pictures.append(picture)
            pixels += here
    yield pictures


def _judged(networks: Basket, findings: Findings, rows: Tensor, quiet: bool) -> Tensor:
    """(networks, rows) what each network says of the images; those of one size go through together."""
    chosen = Findings(findings.table.take(rows.numpy()))
    said = torch.full((len(networks), len(rows)), -1)
    checked: set[torch.Size] = set()
    first = 0
    with progress("Judging the suite", len(rows), quiet=quiet) as bar:
        for pictures in _batches(chosen) if len(chosen) else ():
            for shape in dict.fromkeys(picture.shape for picture in pictures):
                places = [place for place, picture in enumerate(pictures) if picture.shape == shape]
                batch = torch.stack([pictures[place] for place in places])
                if shape not in checked:
                    networks.check(batch)
                    checked.add(shape)
                said[:, [first + place for place in places]] = answers(networks.predict(batch))
            first += len(pictures)
            bar.advance(len(pictures))
    return said


def _choosers(suite: Suite, networks: Basket) -> list[str]:
    """Who of OLD and NEW took part in choosing the images; an OLD that the suite records did."""
    chose = {fingerprint for source in suite.sources for fingerprint in source["networks"].values()}
    roles = [name.upper() for name in networks.names if networks.fingerprints[name] in chose]
    return roles if "old" in networks.names else [*roles, "OLD"]


def _remarks(networks: Basket, said: Tensor, tags: Sequence[Sequence[str]], choosers: Sequence[str]) -> list[str]:
    """What a reader should know before believing the figures."""
    notes = []
    for name, row in zip(networks.names, said, strict=True):
        invalid = int((row < 0).sum())
        if invalid:
            notes.append(f"{name} answered {invalid} images with NaN or infinity: counted as wrong")
    drawn, who = any(DRAWN in given for given in tags), " and ".join(choosers)
    if choosers and drawn and not all(DRAWN in given for given in tags):
        notes.append(
            f"{who} took part in choosing the other images: what changed there is counted, and decides nothing"
        )
    elif choosers and not drawn:
        notes.append(
            f"{who} took part in choosing the images, and none was drawn before that: nothing can be decided by them; "
            "add some with `foible suite RUN --add`, where RUN is a comparison with labels"
        )
    elif not drawn:
        notes.append("no image was drawn before any network was asked: these were chosen by other networks' answers")
    return notes


def _checks(
    classes: Sequence[str], tags: Sequence[Sequence[str]], labels: Tensor, old: Tensor, new: Tensor, chosen: bool,
    tolerance: float, class_tolerance: float,
) -> list[Check]:  # fmt: skip
    """chosen: OLD or NEW had a say in which images these are, but for those that were drawn."""
    broken, fixed = old & ~new, ~old & new

    def count(which: Tensor) -> tuple[int, int, int]:
        return int(which.sum()), int((broken & which).sum()), int((fixed & which).sum())

    def tagged(kind: str) -> Tensor:
        return torch.tensor([kind in given for given in tags], dtype=torch.bool)

    drawn = tagged(DRAWN)
    some = bool(drawn.any())
    kinds = sorted({tag for given in tags for tag in given} - {DRAWN})
    if chosen or some:
        watch = [watched(kind, *count(tagged(kind))) for kind in kinds]
    else:
        watch = [measure("tag", kind, *count(tagged(kind)), None) for kind in kinds]
    if chosen and not some:
        return watch
    decide_on = drawn if some else torch.ones_like(drawn)
    by_class = {name: count(decide_on & (labels == place)) for place, name in enumerate(classes)}
    return [
        measure("overall", DRAWN_IMAGES if some else ALL_IMAGES, *count(decide_on), tolerance),
        *measure_classes(by_class, class_tolerance),
        *watch,
    ]
