"""Deep networks on a GPU: distance against wall time, beside adv-lib's and Foolbox's attacks; robust accuracy beside
AutoAttack; whole commands.

    python -m benchmarks.deep --networks FOLDER --robust FOLDER --json FILE [--picture FILE.png]
        [--only curves,faces,enlarged,robust,distort,hunt,memory] [--images 256] [--efforts 30,60,150] [--quick]

FOLDER: what `python -m benchmarks.deep_networks FOLDER` trains. Everything in float32: TF32 is off for all. A method's
time is that of one call for all images, after a short call that chose the kernels. A point is a method at one effort:
seconds, and the mean distance over the images whose result holds when it is asked again in batches of another size.
"Our curve" at t seconds is our best point that took no more than that; beside a peer, both means are over the images
that hold for both.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.common import Row, arguments, report
from benchmarks.deep_peers import auto_attack, peers_of
from foible.basket import Basket
from foible.basket.precision import real_float32
from foible.data import load
from foible.images import to_floats
from foible.search.nearest import Model, length, margin
from foible.search.nearest.closest import closest

EFFORTS = (15, 30, 60, 100, 150, 400, 1000)
EPS = 8 / 255
FAMILIES = ("closest", "FMN", "DDN", "ALMA", "APGD bisection")
FROM, TO = 0.5, 60.0  # seconds, of the curves


@dataclass(frozen=True)
class Point:
    network: str
    kind: str  # l2 or linf, any or target
    method: str
    seconds: float
    distance: float
    found: float
    holds: float  # of those found, when asked again in batches of another size
    far: list[float]  # the distance of each image; infinity where it does not hold


def model_of(basket: Basket, name: str) -> Model:
    return lambda images: basket.judge(images, [name])[0]


def right_ones(basket: Basket, name: str, data: str, count: int) -> tuple[Tensor, Tensor]:
    """The first images of the test split that the network gets right."""
    test = load(data, split="test", quiet=True)
    said = basket.predict(test.images[: 2 * count], [name])[0].argmax(1).cpu()
    rows = (said == test.labels[: 2 * count]).nonzero()[:count, 0]
    return to_floats(test.images[rows]).to(basket.device), test.labels[rows].to(basket.device)


def timed(call: Callable[[], Tensor]) -> tuple[Tensor, float]:
    torch.cuda.synchronize()
    started = time.perf_counter()
    made = call()
    torch.cuda.synchronize()
    return made, time.perf_counter() - started


@torch.no_grad()
def judged(model: Model, changed: Tensor, labels: Tensor, targets: Tensor | None, size: int) -> Tensor:
    asked = [None] * len(labels) if targets is None else targets.split(size)
    parts = zip(changed.split(size), labels.split(size), asked, strict=False)
    return torch.cat([margin(model(images), label, target) > 0 for images, label, target in parts])


def curve(
    model: Model,
    name: str,
    images: Tensor,
    labels: Tensor,
    norm: str,
    targeted: bool,
    efforts: Sequence[int],
    quick: bool,
) -> list[Point]:
    """Points of ours and of every peer; quick: few of theirs."""
    with torch.no_grad():
        classes = model(images[:1]).shape[1]
    targets = (labels + 1) % classes if targeted else None
    kind = f"{norm} {'target' if targeted else 'any'}"

    def ours(effort: int) -> Tensor:
        return closest(model, images, labels, targets=targets, norm=norm, effort=effort).images

    methods: dict[str, Callable[[], Tensor]] = {f"closest, {effort}": partial(ours, effort) for effort in efforts}
    for peer, attack in peers_of(norm, targeted, quick, classes).items():
        methods[peer] = partial(attack, model, images, labels, targets)
    ours(15)
    made = []
    for method, call in methods.items():
        changed, seconds = timed(call)
        changed = changed.detach().clamp(0, 1)
        found = judged(model, changed, labels, targets, len(images))
        holds = judged(model, changed, labels, targets, max(1, len(images) // 3))
        far = torch.where(found & holds, length(changed - images, norm), torch.inf)
        point = Point(
            name, kind, method, seconds, float(far[far.isfinite()].mean()), float(found.float().mean()),
            float(holds[found].float().mean()), far.tolist(),
        )  # fmt: skip
        print(
            f"{name} {kind:11} {method:34} {seconds:7.2f} s  {point.distance:.5f}  found {100 * point.found:.1f} %  "
            f"holds {100 * point.holds:.1f} %",
            flush=True,
        )
        made.append(point)
    return made


def beside(points: list[Point]) -> list[Row]:
    """Every peer's point within the curve's time against ours that took no longer."""
    rows = []
    for network, kind in dict.fromkeys((point.network, point.kind) for point in points):
        own = [point for point in points if (point.network, point.kind) == (network, kind)]
        ours = [point for point in own if point.method.startswith("closest")]
        rows.append(Row(f"{network} {kind}: of our claims, hold", min(p.found * p.holds for p in ours), 1, "all",
                        min(p.found * p.holds for p in ours), 1))  # fmt: skip
        for peer in own:
            quick = [p for p in ours if p.seconds <= max(peer.seconds, FROM)]
            if peer in ours or not quick or not FROM <= peer.seconds <= TO:
                continue
            best, theirs = (torch.tensor(p.far) for p in (min(quick, key=lambda p: p.distance), peer))
            both = best.isfinite() & theirs.isfinite()
            a, b = float(best[both].mean()), float(theirs[both].mean())
            bar = 0.99 if kind == "l2 any" and "FMN, 1000" in peer.method else 1.0
            rows.append(Row(f"{network} {kind}: mean distance at {peer.seconds:.1f} s", a, b,
                            f"{peer.method} ({100 * peer.found * peer.holds:.1f} % hold)", a / b, bar,
                            at_most=True))  # fmt: skip
    return rows


def picture(points: list[Point], path: Path) -> None:
    """Distance against time, one panel a network and kind."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    panels = list(dict.fromkeys((point.network, point.kind) for point in points))
    across = min(4, len(panels))
    down = -(-len(panels) // across)
    figure, axes = plt.subplots(down, across, figsize=(4.2 * across, 3.4 * down), squeeze=False)
    for axis, (network, kind) in zip(axes.flat, panels, strict=False):
        own = [point for point in points if (point.network, point.kind) == (network, kind)]
        families = dict.fromkeys(point.method.split(",")[0] for point in own)
        least = min(point.distance for point in own)
        for place, family in enumerate(FAMILIES):
            if family not in families:
                continue
            line = sorted((p.seconds, p.distance / least) for p in own if p.method.split(",")[0] == family)
            thick = family == "closest"
            width, size, above = (2.4, 5, 3) if thick else (1.2, 4, 2)
            axis.plot(*zip(*line, strict=True), "o-", label=family, color=f"C{place}", lw=width, ms=size, zorder=above)
        axis.set(xscale="log", ylim=(0.995, 1.25), title=f"{network}, {kind}", xlabel="seconds for all images")
        axis.set_xticks([0.2, 0.5, 1, 2, 5, 10], ["0.2", "0.5", "1", "2", "5", "10"])
        axis.minorticks_off()
        axis.grid(alpha=0.3)
    axes[0][0].set_ylabel("mean distance ÷ the least of all")
    axes[0][0].legend(fontsize=8)
    for axis in list(axes.flat)[len(panels) :]:
        axis.axis("off")
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def resnet_18(task: str, count: int) -> tuple[Model, Tensor, Tensor]:
    """torchvision's ResNet-18, trained here on images of 64×64, and test images that it gets right. faces: smiling or
    not; what `closest` does with two classes was chosen on these. enlarged: CIFAR-10; nothing was chosen on it."""
    from torchvision.models import resnet18

    torch.manual_seed(0)
    spec, epochs = {"faces": ("parquet:smiles", 6), "enlarged": ("cifar10", 12)}[task]
    train, test = (load(spec, split=split, quiet=True) for split in ("train", "test"))
    shown, seen = _at_64(train.images), _at_64(test.images)
    network = resnet18(num_classes=len(train.classes)).cuda()
    step = torch.optim.Adam(network.parameters(), lr=1e-3)
    labels, batch = train.labels.cuda(), 128
    rate = torch.optim.lr_scheduler.LinearLR(step, 1.0, 0.02, epochs * -(-len(labels) // batch))
    for _ in range(epochs):
        for rows in torch.randperm(len(labels), device="cuda").split(batch):
            images = to_floats(shown[rows])
            images = torch.where(torch.rand(len(rows), 1, 1, 1, device="cuda") < 0.5, images, images.flip(3))
            step.zero_grad()
            with torch.autocast("cuda", torch.bfloat16):
                loss = F.cross_entropy(network(images), labels[rows])
            loss.backward()
            step.step()
            rate.step()
    model = network.eval().requires_grad_(False)
    images, labels = to_floats(seen), test.labels.cuda()
    with torch.no_grad():
        right = torch.cat([model(part).argmax(1) for part in images.split(500)]) == labels
    print(f"ResNet-18, {task}: {100 * float(right.float().mean()):.1f} % of test", flush=True)
    return model, images[right][:count], labels[right][:count]


def _at_64(images: Tensor) -> Tensor:
    """uint8 (n, 3, 64, 64) on the GPU."""
    parts = images.cuda().expand(-1, 3, -1, -1).split(5000)
    if images.shape[2:] == (64, 64):
        return torch.cat(parts)
    large = (F.interpolate(part.float(), (64, 64), mode="bilinear").round().byte() for part in parts)
    return torch.cat(list(large))


def robust_rows(folder: Path, count: int) -> list[Row]:
    """Robust accuracy within 8/255 of the adversarially trained network, ours beside AutoAttack's standard ensemble."""
    basket = Basket.open(folder, device="cuda")
    name, test = basket.names[0], load("cifar10", split="test", quiet=True)
    model = model_of(basket, name)
    images, labels = to_floats(test.images[:count]).cuda(), test.labels[:count].cuda()
    right = judged(model, images, labels, labels, count)
    rows, xs, ys = right.nonzero()[:, 0], images[right], labels[right]
    changed, theirs = timed(lambda: auto_attack(basket, name, xs, ys, EPS))
    held = ~judged(model, changed.clamp(0, 1), ys, None, count)
    inside = length(changed - xs, "linf") <= EPS * (1 + 1e-5)
    peer = float((held | ~inside).sum()) / count
    made = []
    for effort in (150, 400, 1000):
        nearest, seconds = timed(lambda e=effort: closest(model, xs, ys, norm="linf", effort=e).images)  # type: ignore[misc]
        broken = judged(model, nearest, ys, None, 100) & (length(nearest - xs, "linf") <= EPS)
        ours = float((~broken).sum()) / count
        print(
            f"robust accuracy at 8/255 of {count}: closest {effort}: {100 * ours:.2f} % in {seconds:.1f} s; AutoAttack "
            f"{100 * peer:.2f} % in {theirs:.1f} s; accuracy {100 * len(rows) / count:.2f} %",
            flush=True,
        )
        made += [
            Row(f"{name}: robust accuracy at 8/255, effort {effort}", ours, peer, "AutoAttack, standard",
                ours / peer, 1, at_most=True),
            Row(f"{name}: seconds, effort {effort}", seconds, theirs, "AutoAttack, standard", seconds / theirs, 1, "s",
                at_most=True),
        ]  # fmt: skip
    return made


def command(what: str, bar: float, *words: str) -> Row:
    """Seconds of a whole command."""
    started = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", "from foible.cli import main; main()", *words],
        check=False,
        capture_output=True,
        text=True,
    )
    seconds = time.perf_counter() - started
    print(done.stdout[-1500:], done.stderr[-500:] if done.returncode else "", f"{what}: {seconds:.1f} s", flush=True)
    return Row(what, seconds, bar, "the bar, for an H200", seconds / bar, 1, "s", at_most=True)


def memory_rows(count: int = 64) -> list[Row]:
    """A 1,000-class ResNet-50 at 224×224 with random weights: the most memory that a distortion of it takes."""
    try:
        from torchvision.models import resnet50
    except Exception as error:  # a torchvision for another torch raises RuntimeError
        print(f"torchvision cannot be used ({error}): the memory row is left out")
        return []
    torch.manual_seed(0)
    network = resnet50(num_classes=1000).cuda().eval().requires_grad_(False)
    images = torch.rand(count, 3, 224, 224, device="cuda")
    with torch.no_grad():
        labels = network(images).argmax(1)
    torch.cuda.reset_peak_memory_stats()
    result, seconds = timed(lambda: closest(network, images, labels).images)
    most = torch.cuda.max_memory_allocated() / 2**30
    held = float(judged(network, result, labels, None, 16).float().mean())
    print(f"ResNet-50, {count} images at 224×224: {seconds:.1f} s, {most:.1f} GiB, {100 * held:.1f} % hold", flush=True)
    return [
        Row(f"ResNet-50 at 224×224, {count} images: memory", most, 20, "the bar", most / 20, 1, "GiB", at_most=True)
    ]


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--networks", type=Path, required=True)
    parser.add_argument("--robust", type=Path)
    parser.add_argument("--picture", type=Path)
    parser.add_argument("--only", default="curves,faces,enlarged,robust,distort,hunt,memory")
    parser.add_argument("--kinds", default="l2 any,l2 target,linf any,linf target")
    parser.add_argument("--names", default="resnet-20,resnet-56")
    parser.add_argument("--images", type=int, default=256)
    parser.add_argument("--efforts", default=",".join(map(str, EFFORTS)), help="of ours")
    parser.add_argument("--quick", action="store_true", help="few points of the peers")
    options = parser.parse_args()
    efforts = [int(effort) for effort in options.efforts.split(",")]
    wanted, rows, points = set(options.only.split(",")), list[Row](), list[Point]()
    real_float32()
    if "curves" in wanted:
        basket = Basket.open(options.networks, device="cuda")
        for name in options.names.split(","):
            images, labels = right_ones(basket, name, "cifar10", options.images)
            for kind in options.kinds.split(","):
                norm, what = kind.split()
                points += curve(
                    model_of(basket, name), name, images, labels, norm, what == "target", efforts, options.quick
                )
    for task in [task for task in ("faces", "enlarged") if task in wanted]:
        model, images, labels = resnet_18(task, options.images)
        for kind in options.kinds.split(","):
            norm, what = kind.split()
            if what == "any" or task == "enlarged":  # of two classes there is no other target
                name = f"ResNet-18, {task}"
                points += curve(model, name, images, labels, norm, what == "target", efforts, options.quick)
    rows += beside(points)
    if options.picture and points:
        picture(points, options.picture)
        options.picture.with_suffix(".points.json").write_text(
            json.dumps([asdict(point) for point in points], indent=1)
        )
    if "robust" in wanted and options.robust:
        rows += robust_rows(options.robust, 1000)
    with tempfile.TemporaryDirectory() as scratch:
        common = ("--basket", str(options.networks), "--data", "cifar10", "--device", "cuda")
        if "distort" in wanted:
            rows.append(command(
                "distort: 10,000 images, nearest label, 8 bits", 120, "distort", *common, "--source", "resnet-20",
                "--images", "10000", "--out", f"{scratch}/distort",
            ))  # fmt: skip
        if "hunt" in wanted:
            rows += [
                command(
                    f"hunt: 1,000 trials of each of four, {precision}", 25, "hunt", *common, "--trials", "1000",
                    "--split", "test", "--precision", precision, "--out", f"{scratch}/hunt-{precision}",
                )
                for precision in ("float32", "bf16")
            ]  # fmt: skip
    if "memory" in wanted:
        rows += memory_rows()
    report(rows, options.json)


if __name__ == "__main__":
    main()
