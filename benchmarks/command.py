"""The whole command, from its start in a fresh process to its report, with its defaults.

    python -m benchmarks.command --json FILE [--only help,seeds,disk,show,cpu,gpu] [--trials 20000] [--device cuda]

`cpu` compares with the work that was needed, in one run on one machine; what takes seconds or bytes is held against a
bar as it is. `gpu` runs with `--device cuda` only, and its bars are for an H200.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.compute as pc
import torch
from torch import Tensor

from benchmarks.common import Row, arguments, report
from benchmarks.hunt import CONFIDENCE, MLPS, _RecordedSpace, _RecordingBasket, data_spec, one_by_one
from foible.basket import Basket
from foible.data import load
from foible.findings import read_shard, shard_files, with_metadata
from foible.images import to_floats
from foible.memory import keep
from foible.realism.patches import Patches
from foible.recipes.hunt.recipe import hunt
from foible.recipes.train.train import train
from foible.runs.folder import RunFolder
from foible.runs.record import settings_hash
from foible.runs.spans import Span
from foible.spaces import Affine
from foible.spaces.affine import warp

PROGRAM = "import sys; from foible.cli import main; sys.argv[0] = 'foible'; main()"
IMPORTS = "import foible; foible.hunt; foible.write_report"  # what `foible hunt` needs before it can begin
SUSPECT = "mlp-10"
UNIT = 20_000  # rows of a shard of the run that is made for `show`
WORKERS = 2
GPU_SECONDS = {100_000: 8, 1_000_000: 45}  # that so many trials may take
Entry = tuple[str, int, tuple[str, ...]]  # what was done, to how many images, by which networks


@dataclass(frozen=True)
class Ran:
    """What a fresh process took: seconds on the clock, of all its processes' processors, and its own peak in MB."""

    seconds: float
    processor: float
    peak: float


def ran(code: str, *args: str) -> Ran:
    """Run Python code in a fresh process."""
    peak: list[float] = [0.0]
    done = threading.Event()
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    process = subprocess.Popen([sys.executable, "-c", code, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def watch() -> None:  # ru_maxrss would be that of this process, if that is larger
        while not done.wait(0.02):
            with suppress(OSError):  # no such file on this system, or it has just ended
                lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
                peak.extend(int(line.split()[1]) * 1024 / 1e6 for line in lines if line.startswith("VmHWM"))

    watcher = threading.Thread(target=watch)
    watcher.start()
    _, errors = process.communicate()
    seconds, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    done.set()
    watcher.join()
    if process.returncode:
        raise RuntimeError(f"foible {' '.join(args)} ended with {process.returncode}:\n{errors.decode()[-2000:]}")
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Ran(seconds, used, max(peak))


def foible(*args: str | Path | int) -> Ran:
    """Run the program."""
    return ran(PROGRAM, *map(str, args))


def hunting(basket: Path, spec: str, trials: int, out: Path, *more: str) -> tuple[str | Path | int, ...]:
    """The arguments of the hunt that every row here is about."""
    asked = ("--suspect", SUSPECT, "--peer-confidence", CONFIDENCE, "--trials", trials, "--out", out)
    return ("hunt", "--basket", basket, "--data", spec, *map(str, asked), *more)


def imports() -> Ran:
    """The best of three."""
    return min((ran(IMPORTS) for _ in range(3)), key=lambda one: one.seconds)


# What a hunt needed, recorded once and done again with nothing around it.


def recorded(folder: Path, spec: str, trials: int, out: Path) -> list[Entry]:
    """Every batch of forward passes and warps, and of realism, that this hunt needs, shrinking included. Of the seed
    images those count that trials began from, each judged once; how many the program looks at is its own affair."""
    basket, data = _RecordingBasket.of(Basket.open(folder)), load(spec, quiet=True)
    log = _RecordedSpace.log = basket.log
    fit, score = Patches.fit, Patches.score

    def noted_fit(images: Tensor, held: Tensor, seed: int) -> Patches:
        with mock.patch.object(Patches, "score", score):  # what fitting scores is part of it
            log.append(("fit", len(images) + len(held), ()))
            return fit(images, held, seed)

    def noted_score(self: Patches, images: Tensor, origins: Tensor | None = None) -> Tensor:
        log.append(("score", len(images), ()))
        return score(self, images, origins)

    with (
        one_by_one(),
        mock.patch.object(Patches, "fit", staticmethod(noted_fit)),
        mock.patch.object(Patches, "score", noted_score),
    ):
        found = hunt(
            basket, data, space=_RecordedSpace(), suspect=SUSPECT, peer_confidence=CONFIDENCE, trials=trials, out=out,
            workers=1, quiet=True,
        )  # fmt: skip
    seeds = len({row["origin_index"] for row in found})
    first = begin_of_search(log)
    return [("judge", min(512, seeds - begin), basket.names) for begin in range(0, seeds, 512)] + log[first:]


def begin_of_search(log: list[Entry]) -> int:
    """The place of its first warp: of several images, since a hunt rehearses with one."""
    return next(place for place, (kind, size, _) in enumerate(log) if kind == "warp" and size > 1)


@torch.no_grad()
def _replay(folder: str, spec: str, log: list[Entry], ready: Any, send: Any) -> None:
    """Do the work of a log in this process, with one thread; sends seconds on the clock and of the processor."""
    torch.set_num_threads(1)
    keep()
    basket, data = Basket.open(folder), load(spec, quiet=True)
    largest = max(size for _, size, _ in log)
    images = to_floats(data.images[:largest]).repeat(1 + largest // len(data), 1, 1, 1)[:largest].contiguous()
    matrix = Affine().matrix_of(torch.rand(largest, 6))
    realism = Patches.fit(images[:1500], images[1500:2000], 0)
    shown = images
    ready.wait()
    started, used = time.perf_counter(), time.process_time()
    for kind, size, names in log:
        if kind == "warp":
            shown = warp(images[:size], matrix[:size])
        elif kind == "fit":
            Patches.fit(images[: size * 3 // 4], images[size * 3 // 4 : size], 0)
        elif kind == "score":
            realism.score(images[:size], images[:size])
        else:
            for name in names:
                basket.network(name)((shown if len(shown) >= size else images)[:size])
    send.send((time.perf_counter() - started, time.process_time() - used))


def needed(folder: Path, spec: str, log: list[Entry]) -> tuple[float, float]:
    """Seconds that the work of a log takes when as many processes as the command has share it evenly, all busy; and
    the processor time of all of them together."""
    context = get_context("spawn")
    ready, cut = context.Barrier(WORKERS), -(-len(log) // WORKERS)
    pipes, processes = [], []
    for number in range(WORKERS):
        receive, send = context.Pipe(duplex=False)
        args = (str(folder), spec, log[number * cut : (number + 1) * cut], ready, send)
        processes.append(context.Process(target=_replay, args=args))
        processes[-1].start()
        pipes.append(receive)
    took = [pipe.recv() for pipe in pipes]
    for process in processes:
        process.join()
    return sum(clock for clock, _ in took) / WORKERS, sum(processor for _, processor in took)


def cpu(folder: Path, spec: str, trials: int, repeats: int, scratch: Path) -> list[Row]:
    """What was needed ÷ the whole command, both with the same processes, one right after the other; of several such
    pairs the median counts, since the same work takes a tenth more or less from minute to minute."""
    log, before = recorded(folder, spec, trials, scratch / "recorded"), imports()
    print(f"imports, measured apart: {before.seconds:.2f} s, {before.processor:.2f} s of the processor")
    pairs: dict[str, list[tuple[float, float]]] = {"on the clock": [], "processor": []}
    for repeat in range(repeats):
        whole = foible(*hunting(folder, spec, trials, scratch / f"cpu {repeat}", "--workers", str(WORKERS)))
        clock, processor = needed(folder, spec, log)
        pairs["on the clock"].append((clock, whole.seconds - before.seconds))
        pairs["processor"].append((processor, whole.processor - before.processor))
        told = [f"{each[-1][0]:.1f} of {each[-1][1]:.1f} s {kind}" for kind, each in pairs.items()]
        print(f"needed: {', '.join(told)}", flush=True)
    name, what = f"hunt of {trials:,} trials, five MLPs on {spec}, {WORKERS} cores", "what it needed: passes and warps"
    rows = []
    for kind, each in pairs.items():
        floor, took = sorted(each, key=lambda pair: pair[0] / pair[1])[len(each) // 2]
        rows.append(Row(f"{name}, {kind}", took, floor, what, floor / took, 0.65, "s"))
    return rows


# Sizes and times that are held against a number.


def bound(name: str, value: float, bar: float, unit: str) -> Row:
    """A row whose value itself must not pass the bar; told at once, for what comes next may take minutes."""
    print(f"{name}: {value:,.4g} {unit}", flush=True)
    return Row(name, value, bar, "the bar", value, bar, unit, at_most=True)


def rows_of(run: Path) -> pa.Table:
    return pa.concat_tables([read_shard(file) for file in shard_files(run)])


def disk(folder: Path, spec: str, trials: int, scratch: Path) -> list[Row]:
    """Bytes a row of each kind, written as the program writes shards."""
    foible(*hunting(folder, spec, trials, scratch / "disk"))
    table, rows = rows_of(scratch / "disk"), []
    place = table.column_names.index("film")
    unfilmed = table.set_column(place, table.schema.field("film"), pa.nulls(len(table), pa.binary()))
    for outcome, name, bar in (("exhausted", "that found nothing", 700), ("found", "with a find, no film", 2500)):
        part = unfilmed.filter(pc.equal(table.column("outcome"), outcome))
        folder_of = RunFolder(scratch / outcome)
        for inside in ("shards", "timings"):
            folder_of.inside(inside)
        span = Span(0, 0, len(part))
        folder_of.write(span, part, {})
        size = folder_of.shard(span).stat().st_size / max(1, len(part))
        rows.append(bound(f"disk of a trial {name}, five networks, {spec} ({len(part):,} rows)", size, bar, "bytes"))
    return rows


def million(small: Path, run: Path, rows: int) -> None:
    """A run of that many rows: those of a small one over and over, each with a lane and a name of its own."""
    config, given = RunFolder(small).config, rows_of(small)
    settings = config["settings"] | {"trials": rows}
    key, classes = settings_hash(settings), load(settings["data"], quiet=True).classes
    folder = RunFolder(run)
    with folder.lock():
        folder.begin(settings, config["where"], [rows], clean=config.get("clean"), notes=[])
        for first in range(0, rows, UNIT):
            span = Span(0, first, min(first + UNIT, rows))
            lanes = torch.arange(span.first, span.end)
            table = given.take(pa.array((lanes % len(given)).numpy()))
            own = {
                "id": [f"{SUSPECT}-{lane:06d}" for lane in lanes.tolist()],
                "config": [key] * len(lanes),
                "lane": lanes.numpy(),
            }
            for name, values in own.items():
                field = table.schema.field(name)
                table = table.set_column(table.column_names.index(name), field, pa.array(values, field.type))
            folder.write(span, with_metadata(table, classes, {key: settings}), {"seconds": 1.0})


def show(folder: Path, spec: str, rows: int, scratch: Path) -> list[Row]:
    """`foible show` of a large run, imports included."""
    foible(*hunting(folder, spec, 2000, scratch / "small"))
    million(scratch / "small", scratch / "million", rows)
    took = min((foible("show", scratch / "million") for _ in range(2)), key=lambda one: one.seconds)
    name = f"foible show of {rows:,} rows"
    return [bound(name, took.seconds, 3, "s"), bound(f"{name}, peak memory", took.peak, 1000, "MB")]


def help_() -> list[Row]:
    """The best of seven, imports included."""
    return [bound("foible --help", min(foible("--help").seconds for _ in range(7)), 0.4, "s")]


def seeds(folder: Path, spec: str, scratch: Path) -> list[Row]:
    """Images that the whole basket judges before the first trial of a small hunt begins."""
    basket, data = _RecordingBasket.of(Basket.open(folder)), load(spec, quiet=True)
    _RecordedSpace.log = basket.log
    hunt(basket, data, space=_RecordedSpace(), suspect=SUSPECT, trials=100, out=scratch / "seeds", quiet=True)
    before = basket.log[: begin_of_search(basket.log)]
    judged = sum(size for _, size, names in before if len(names) == len(basket))  # the search asks the suspect alone
    return [bound(f"judged before the first of 100 trials, {spec} of {len(data):,}", judged, 400, "images")]


def gpu(folder: Path, spec: str, scratch: Path, sizes: list[int]) -> list[Row]:
    """The whole command on a GPU, imports apart, and its search alone."""
    from benchmarks.gpu import mlps

    before, rows = imports(), []
    print(f"imports, measured apart: {before.seconds:.2f} s")
    for trials in sizes:
        took = foible(*hunting(folder, spec, trials, scratch / f"gpu {trials}", "--device", "cuda"))
        name = f"hunt of {trials:,} trials, five MLPs on {spec}, {torch.cuda.get_device_name()}, report included"
        rows.append(bound(name, took.seconds - before.seconds, GPU_SECONDS[trials], "s"))
    for row in mlps(sizes[-1], scratch, folder):
        rows.append(replace(row, peer=250e6, ratio=row.ours / 250e6))
    return rows


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--trials", type=int, default=20_000, help="of the hunt on two cores")
    parser.add_argument("--rows", type=int, default=1_000_000, help="of the run that is shown")
    parser.add_argument("--repeats", type=int, default=3, help="of the hunt on two cores and of what it needed")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--gpu-trials", type=int, action="append", choices=GPU_SECONDS, help="default: both")
    parser.add_argument("--basket", type=Path, help="five MLPs that are trained already")
    parser.add_argument("--only", help="some of help,seeds,disk,show,cpu,gpu (default: all but gpu; with cuda, gpu)")
    options = parser.parse_args()
    wanted = (options.only or ("gpu" if options.device == "cuda" else "help,seeds,disk,show,cpu")).split(",")
    os.environ["COLUMNS"] = "200"
    spec, rows = data_spec(), []
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        folder = (options.basket or scratch / "mlps").resolve()
        if options.basket is None and wanted != ["help"]:
            train(list(MLPS), spec, out=folder, device=options.device)
        if "help" in wanted:
            rows += help_()
        if "seeds" in wanted:
            rows += seeds(folder, spec, scratch)
        if "disk" in wanted:
            rows += disk(folder, spec, 4000, scratch)
        if "show" in wanted:
            rows += show(folder, spec, options.rows, scratch)
        if "cpu" in wanted:
            rows += cpu(folder, spec, options.trials, options.repeats, scratch)
        if "gpu" in wanted:
            rows += gpu(folder, spec, scratch, options.gpu_trials or list(GPU_SECONDS))
    report(rows, options.json)


if __name__ == "__main__":
    main()
