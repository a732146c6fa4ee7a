"""Cheap peers for somebody with one network: heads trained on the frozen features of a backbone.

    train(["probe:basket", "probe:basket,hidden=128"], "mnist", seeds=3, out="peers")

Each image goes through the backbone once; the features stay in memory, (n, d) float32, and every head learns from
them (`foible.networks.heads`).
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from foible.basket.hooks import find_layer
from foible.data import Dataset, Photographs, load, open_data, read, stream
from foible.errors import Interrupted, UserError
from foible.images import to_floats
from foible.networks import files
from foible.networks.features import Backbone
from foible.networks.files import Entry
from foible.networks.heads import Features, accuracy, fit
from foible.networks.load.specs import fingerprint
from foible.networks.probe import PREFIX, Probe, ProbeSource, ProbeSpec, open_backbone, parse
from foible.permission import Permission
from foible.processes import one_thread
from foible.progress import progress
from foible.recipes.train.fleets import meet
from foible.spec_files import absolute
from foible.text import shown
from foible.views import View

if TYPE_CHECKING:
    from foible.recipes.train.config import TrainConfig

Data = Dataset | Photographs


@dataclass(eq=False)
class Bench:
    """One backbone, the data as it can take it, and the features of that."""

    entry: Entry
    source: ProbeSource
    backbone: Backbone
    view: View | None
    shape: tuple[int, int, int]
    data: dict[str, Data]
    splits: dict[str, Features] = field(default_factory=dict)


class Probes:
    """Probes that are asked for: backbones and data are open, nothing is trained yet."""

    def __init__(
        self, config: TrainConfig, data: str | Data, test: Data | None, device: torch.device, *, trust: bool = False,
        quiet: bool = False,
    ) -> None:  # fmt: skip
        self.config, self.device, self.quiet = config, device, quiet
        self.may = Permission.typed(list(config.specs), trust=trust)
        self.specs = [parse(spec) for spec in config.specs]
        _check(config, self.specs)
        if test is None and isinstance(data, str):
            test = open_data(data, "test", quiet=quiet)
        data = open_data(data, "train", quiet=quiet)
        self.classes = data.classes
        self.data: dict[str, Data] = {"train": data} | ({} if test is None else {"test": test})
        for one in self.data.values():
            _labels(one, self.classes)  # or an error, before any work
        self.benches = self._open()
        self.names = [name for spec in self.specs for name in self._names(spec)]
        for name in self.names:
            if self.names.count(name) > 1:
                raise UserError(f"two probes would be called {name!r}: name a backbone, as {PREFIX}NAME=SPEC")
        self.record = asdict(config) | {
            "data_sha256": [one.sha256 for one in self.data.values()],
            "backbone_sha256": [bench.source.sha256 for bench in self.benches.values()],
        }

    def _open(self) -> dict[tuple[str, bool], Bench]:
        """A bench for each backbone and kind of features; the network is opened once for both kinds."""
        opened: dict[str, tuple[Entry, str]] = {}
        benches: dict[tuple[str, bool], Bench] = {}
        given = self.data["train"]
        shape = _shape(given) if isinstance(given, Dataset) else None
        for spec in self.specs:
            key = (spec.backbone, spec.logits)
            if key in benches:
                continue
            if spec.backbone not in opened:
                opened[spec.backbone] = open_backbone(spec.backbone, self.classes, shape, self.may)
            entry, plain = opened[spec.backbone]
            benches[key] = bench = self._bench(entry, plain, shape, spec)
            first = next(iter(benches.values()))
            if bench.shape != first.shape:
                raise UserError(
                    f"{first.entry.name!r} takes images of shape {first.shape}, {entry.name!r} of {bench.shape}: "
                    "give their probes an --out each"
                )
        return benches

    def _bench(self, entry: Entry, plain: str, shape: tuple[int, int, int] | None, spec: ProbeSpec) -> Bench:
        view = entry.preprocess.view or (View(entry.shape[1:]) if entry.shape else None)
        data: dict[str, Data] = dict(self.data)
        for split, one in self.data.items():
            if view is None and not isinstance(one, Dataset):  # it takes images as they come: they must be of one size
                data[split] = load(one.name, split, quiet=self.quiet)
        few = _few(data["train"], view)
        channels = len(entry.preprocess.mean) or (entry.shape[0] if entry.shape else few.shape[1])
        prepared = entry.preprocess(to_floats(few))
        try:
            layer = None if spec.logits else find_layer(entry.module, prepared, f"network {entry.name!r}")
            backbone = Backbone(entry.module, layer)
            with torch.no_grad():
                features = backbone(prepared)
        except UserError:
            raise
        except Exception as error:
            line = str(error).strip().splitlines()[0] if str(error).strip() else ""
            raise UserError(
                f"network {entry.name!r} cannot take images of shape {tuple(prepared.shape[1:])}: "
                f"{type(error).__name__}: {line}"
            ) from error
        if not self.quiet:
            what = f"what layer {layer!r} is given" if layer is not None else "its answers, no layer being known"
            what = "its answers" if spec.logits else what
            print(f"{shown(entry.name)}: {features.shape[1]} features, {what}", file=sys.stderr)
        source = ProbeSource(
            _anywhere(plain), entry.sha256 or fingerprint(entry.module), layer, features.shape[1], shape
        )
        return Bench(entry, source, backbone, view, (channels, *few.shape[2:]), data)

    def _names(self, spec: ProbeSpec) -> list[str]:
        """`probe-NAME`, `probe-NAME-128` with hidden units, and `-s0`, `-s1`, … where there is more than one seed."""
        bench = self.benches[spec.backbone, spec.logits]
        plain = re.sub(r"[^\w.-]+", "-", bench.entry.name)
        name = f"probe-{plain}{'-logits' if spec.logits else ''}{f'-{spec.hidden}' if spec.hidden else ''}"
        return [name] if len(self.config.seeds) == 1 else [f"{name}-s{seed}" for seed in self.config.seeds]

    def load(self, folder: Path) -> list[Entry]:
        """The finished probes of `folder`. Backbones that this very command names need no trust."""
        opened = {bench.source: bench.backbone for bench in self.benches.values()}
        return files.load_folder(folder, may=self.may, opened=opened)

    def train(self) -> list[Entry]:
        try:
            return self._train()
        except KeyboardInterrupt:
            raise Interrupted("stopped: no probe was finished; the same command begins again") from None

    def _train(self) -> list[Entry]:
        for bench in self.benches.values():
            bench.backbone.to(self.device)
            for split, one in bench.data.items():
                bench.splits[split] = self._see(bench, one)
            bench.backbone.to("cpu")
        entries: list[Entry] = []
        jobs = [(spec, seed) for spec in self.specs for seed in self.config.seeds]
        with progress("Training", len(jobs), quiet=self.quiet) as bar:
            for (spec, seed), name in zip(jobs, self.names, strict=True):
                entries.append(self._fit(spec, seed, name))
                bar.advance(1, name)
        return entries

    @torch.no_grad()
    def _see(self, bench: Bench, data: Data) -> Features:
        """Every labelled image through the backbone once."""
        labels = _labels(data, self.classes)
        index = (labels >= 0).nonzero()[:, 0]
        values, at = torch.empty(len(index), bench.source.features), 0
        kept: list[Tensor] = []
        lost = 0
        batch = max(16, min(1024, 3_000_000 // math.prod(bench.shape[1:])))
        with progress(f"Features of {bench.entry.name} ({data.split})", len(index), quiet=self.quiet) as bar:
            for seen in stream(data, [bench.view], index=index, batch=batch):
                if len(seen.index):
                    images = bench.entry.preprocess(to_floats(seen.images[0].to(self.device)))
                    values[at : at + len(images)] = bench.backbone(images).cpu()
                    at += len(images)
                    kept.append(seen.index)
                lost += len(seen.problems)
                bar.advance(len(seen.index) + len(seen.problems))
        if not kept:
            raise UserError(f"{shown(data.name)}: no image of the {data.split} split could be read")
        if lost and not self.quiet:
            print(f"{shown(data.name)} ({data.split}): {lost} files could not be read", file=sys.stderr)
        rows = torch.cat(kept)
        values = values[:at]
        if not all(part.isfinite().all() for part in values.split(65536)):
            raise UserError(f"network {bench.entry.name!r} has features that are no numbers on {shown(data.name)}")
        return Features(values, labels[rows])

    def _fit(self, spec: ProbeSpec, seed: int, name: str) -> Entry:
        bench, config = self.benches[spec.backbone, spec.logits], self.config
        try:
            seen = {k: Features(s.values.to(self.device), s.labels.to(self.device)) for k, s in bench.splits.items()}
            large = bench.source.features * (spec.hidden or len(self.classes)) > 100_000
            with nullcontext() if large else one_thread():  # beside another busy process a second one only waits
                head, record = fit(
                    seen["train"], len(self.classes), spec.hidden, seed, epochs=config.epochs, batch=config.batch,
                    rate=config.rate, weight_decay=config.weight_decay,
                )  # fmt: skip
                scores = {split: accuracy(head, one) for split, one in seen.items()}
        except torch.OutOfMemoryError as error:
            raise UserError(f"the features of {name!r} do not fit on {self.device}: give --device cpu") from error
        if not all(value.isfinite().all() for value in head.state_dict().values()):
            raise UserError(f"network {name!r} diverged: give a lower --rate or a higher --weight-decay")
        settings = {"data": config.data, "split": "train", "images": len(bench.splits["train"].labels)}
        return Entry(
            name=name,
            module=Probe(bench.backbone, head.cpu(), bench.source).eval(),
            preprocess=bench.entry.preprocess,
            classes=self.classes,
            shape=bench.shape,
            spec=f"{PREFIX}{bench.source.spec}{spec.tail}",
            accuracy=scores,
            seed=seed,
            training=settings | record | {"device": self.device.type, "torch": torch.__version__},
        )


def _check(config: TrainConfig, asked: Sequence[ProbeSpec]) -> None:
    if config.target is not None:
        raise UserError("a probe is trained to its end: leave --target out")
    if not any(spec.hidden for spec in asked) and (config.batch or config.rate):
        raise UserError("a linear probe learns from all images at once: leave --batch and --rate out, or add ,hidden=N")


def _labels(data: Data, classes: tuple[str, ...]) -> Tensor:
    """(n,) positions in `classes`, by name; -1 where an image has no label."""
    if not (data.labels >= 0).any():
        raise UserError(f"{shown(data.name)}: no image of the {data.split} split has a label to learn")
    return meet(data, classes)


def _shape(data: Dataset) -> tuple[int, int, int]:
    channels, height, width = data.images.shape[1:]
    return channels, height, width


def _few(data: Data, view: View | None) -> Tensor:
    """The first images that can be read, uint8 (n, channels, height, width)."""
    for index in torch.arange(len(data)).split(16):
        seen = read(data, index, [view])
        if len(seen.index):
            return seen.images[0]
    raise UserError(f"{shown(data.name)}: no image of the {data.split} split could be read")


def _anywhere(spec: str) -> str:
    """A spec that opens from any working folder; FOLDER/NETWORK too."""
    place = Path(spec)
    return str(place.resolve()) if (place.parent / files.FILE).is_file() else absolute(spec)
