"""Where lines begin and end: a code for each class, chosen by the networks, by a person, or of real images."""

from __future__ import annotations

import hashlib
import json
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from foible.basket.accuracy import answers
from foible.basket.judging import Judged
from foible.data.decode import picture, pixels_of, reason
from foible.disk import write_atomically
from foible.errors import UserError
from foible.findings import Findings
from foible.findings.tags import tags_of
from foible.generators.base import Shape
from foible.images import to_bytes, to_floats
from foible.recipes.boundary.pairs import read_pairs
from foible.recipes.boundary.samples import FIRST, SAMPLED, End, Sampled, read_images, shape_of
from foible.recipes.seeds import look
from foible.records import NUMBER, TEXT, check, read_json
from foible.runs.task import Seeds, Task
from foible.spec_files import with_files
from foible.text import some

FILE = "ends.json"
TAG = "end"  # of a candidate that a person chose
TRIED = 64  # images of a class that the generator is tried on
FORM = {"generator?": TEXT, "key?": TEXT, "ends": {str: {"code": [NUMBER]}}}


def ends_of(task: Task) -> Seeds:
    """`first`, `second`: (lines, latent), the codes of both ends of each line, and `origin`: uint8 (lines, …), what is
    at its first end. Or `codes`: (n, latent), candidates, and `classes`: (n,), what each is one of."""
    config, device, shape = task.config, task.basket.device, shape_of(task)
    line = task.parts["space"]
    if config.first is not None:
        images = torch.stack([_photograph(file, shape) for file in (config.first, config.second)])
        codes = line.encode(to_floats(images.to(device))).cpu()
        return Seeds({"first": codes[:1], "second": codes[1:], "origin": images[:1]})
    pairs = torch.tensor(read_pairs(config.pairs, task.basket.classes))
    classes = pairs.unique().tolist()
    if config.candidates:
        sampled = Sampled(task)
        places = {number: sampled.best(number)[: config.candidates] for number in classes}
        numbers = torch.tensor([number for number in classes for _ in places[number]])
        return Seeds({"codes": sampled.codes[torch.cat(list(places.values()))], "classes": numbers})
    ends = _kept(task, classes) or _chosen(task, classes)
    if task.kept is not None:
        _keep(task, ends)
    place = {number: at for at, number in enumerate(classes)}
    codes = torch.tensor([ends[number]["code"] for number in classes], dtype=torch.float32)
    real = [end["place"] for end in ends.values() if "place" in end]
    pictures = read_images(task, torch.tensor([ends[number]["place"] for number in classes])) if real else to_bytes(
        line.draw(codes.to(device), shape)
    ).cpu()  # fmt: skip
    one, other = (torch.tensor([place[number] for number in side.tolist()]) for side in pairs.t())
    return Seeds({"first": codes[one], "second": codes[other], "origin": pictures[one]})


def _chosen(task: Task, classes: Sequence[int]) -> dict[int, End]:
    """The ends, by the number of their class."""
    ends = task.config.ends
    if ends in SAMPLED:
        return Sampled(task).ends(classes, first=ends == FIRST)
    if ends == "images":
        return _of_images(task, classes)
    given = given_ends(ends)
    names = task.basket.classes
    missing = [names[number] for number in classes if names[number] not in given["ends"]]
    if missing:
        raise UserError(f"--ends {ends} has no end for {some(missing, 12)}: choose one, or leave it out of --pairs")
    generator = task.parts["space"].on(task.basket.device, shape_of(task))
    drawn = with_files("space", task.named["space"]).get("space_sha256", "")
    theirs = given.get("generator", generator.fingerprint), given.get("space", drawn)
    fits = all(len(end["code"]) == generator.latent for end in given["ends"].values())
    if theirs != (generator.fingerprint, drawn) or not fits:
        raise UserError(f"--ends {ends} is of another generator: its codes mean nothing to {task.config.generator!r}")
    return {number: given["ends"][names[number]] for number in classes}


def given_ends(ends: str) -> dict[str, Any]:
    """An ends.json, or what a person chose of a run of candidates: by tag, or by ids behind a colon."""
    folder, _, ids = ends.partition(":") if not Path(ends).exists() else (ends, "", "")
    if Path(folder).is_file():
        checked: dict[str, Any] = check(read_json(Path(folder), ""), FORM, folder)
        return checked
    if not Path(folder).is_dir():
        raise UserError(
            f"--ends {ends!r} is neither there nor samples, first or images: expected an {FILE}, or a run of "
            "--candidates"
        )
    findings = Findings.open(folder)
    chosen = ids.split(",") if ids else sorted(tags_of(folder).get(TAG, ()))
    if not chosen:
        raise UserError(
            f"nobody has chosen anything of {folder!r} yet: open it with `foible studio {folder}`, tick one candidate "
            f"of each class and tag them {TAG!r}; or name them, as in --ends {folder}:ID,ID"
        )
    found: dict[str, End] = {}
    for row in map(findings.get, chosen):
        name = findings.name_of(row["target"])
        if name in found:
            both = f"{found[name]['id']} and {row['id']}"
            raise UserError(f"two ends are chosen for the class {name!r}, {both}: leave one out")
        found[name] = {"code": row["point"] or [], "id": row["id"]}
        drawn = findings.configs[row["config"]].get("space_sha256", "")
    return {"ends": found, "space": drawn}


def ends_sha256(config: Any) -> str:
    """Hash of what a person gave; nothing where the run chooses by itself."""
    if config.first is not None:
        given = [_bytes(file) for file in (config.first, config.second)]
    elif config.ends in (*SAMPLED, "images"):
        return ""
    else:
        given = [json.dumps(given_ends(config.ends)["ends"], sort_keys=True).encode()]
    return hashlib.sha256(b"".join(hashlib.sha256(one).digest() for one in given)).hexdigest()


def _of_images(task: Task, classes: Sequence[int]) -> dict[int, End]:
    """An image of each class that all networks get right, and what the generator makes of it too: the first in the
    order of the seed. Where the generator spoils many of a class, the first of them stands for it all the same."""
    names, line, device = task.basket.classes, task.parts["space"], task.basket.device
    clean, first, tried = dict[int, End](), dict[int, End](), Counter[int]()

    def good(part: Judged, said: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        right, mine = (said == labels).all(0), torch.zeros(said.shape[1], dtype=torch.bool)
        wanted = {number for number in classes if number not in clean and tried[number] < TRIED}
        rows = [at for at in right.nonzero()[:, 0].tolist() if int(labels[at]) in wanted]
        if not rows:
            return mine, labels
        codes = line.encode(to_floats(read_images(task, part.index[rows]).to(device)))
        again = answers(task.basket.predict(to_bytes(line.draw(codes, shape_of(task)))))
        for at, code, kept in zip(rows, codes.tolist(), (again == labels[rows]).all(0).tolist(), strict=True):
            label = int(labels[at])
            if label in clean or tried[label] == TRIED:
                continue
            end = {"code": code, "place": int(part.index[at])}
            first.setdefault(label, end)
            tried[label] += 1
            if kept:
                clean[label] = end
            mine[at] = kept or tried[label] == TRIED
        return mine, labels

    look(replace(task, kept=None), "boundary.images", len(classes), good, "Choosing images")
    missing = [names[number] for number in classes if number not in first]
    if missing:
        raise UserError(
            f"no image of {task.matched.data.name!r} ({task.matched.data.split}) that shows {some(missing, 8)} is "
            "classified right by all networks: leave it out of --pairs, give two photographs with --from and --to, or "
            "check the class order"
        )
    spoilt = [names[number] for number in classes if number not in clean]
    if spoilt and not task.quiet:
        print(
            f"Ends: what the generator makes of images of {some(spoilt, 8)} is called otherwise by some network (up to "
            f"{TRIED} of each were tried): these lines do not begin or end where they should. Train the generator "
            "longer, or choose by eye with --candidates 12 and then --ends",
            file=sys.stderr,
        )
    return {number: clean.get(number, first[number]) for number in classes}


def _photograph(file: str, shape: Shape) -> Tensor:
    """uint8 of this shape: an image file, cropped and brought to size."""
    try:
        made = picture(_bytes(file), "L" if shape[0] == 1 else "RGB", (shape[2], shape[1]))
        return torch.from_numpy(pixels_of(made).copy())
    except UserError:
        raise
    except Exception as error:  # the bytes may be anything
        raise UserError(f"{file!r} is no image that can be read: {reason(error)}") from error


def _bytes(file: str) -> bytes:
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise UserError(f"{file!r} cannot be read ({error.strerror or error}): give an image file") from error


def _keep(task: Task, ends: dict[int, End]) -> None:
    """Beside the run: what goes on with it takes the same, and other runs may."""
    assert task.kept is not None
    ours = task.parts["space"].on(task.basket.device, shape_of(task)).fingerprint
    named = {task.basket.classes[number]: end for number, end in ends.items()}
    about = {"key": task.kept.key, "generator": ours, "ends": named}
    text = json.dumps(about, indent=1, ensure_ascii=False)
    file = task.kept.folder / FILE
    if not file.is_file() or file.read_text("utf-8") != text:
        write_atomically(file, text.encode())


def _kept(task: Task, classes: Sequence[int]) -> dict[int, End]:
    """The ends that this run chose before; none where it begins."""
    file = None if task.kept is None else task.kept.folder / FILE
    if file is None or not file.is_file():
        return {}
    kept = check(read_json(file, "delete it"), FORM, str(file), "delete it")
    assert task.kept is not None
    named = {number: kept["ends"].get(task.basket.classes[number]) for number in classes}
    return named if kept.get("key") == task.kept.key and all(named.values()) else {}
