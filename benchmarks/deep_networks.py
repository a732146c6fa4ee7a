"""The networks of `benchmarks.deep`, trained on a GPU: ResNets of 20, 32, 44 and 56 layers for CIFAR-10, and a
ResNet-20 that is trained adversarially (PGD within 8/255). Each is a process of its own.

    python -m benchmarks.deep_networks FOLDER [--only 20,32,44,56,robust] [--epochs N]

Crops and flips, SGD with momentum, one cycle; the whole step is one CUDA graph, in bfloat16 where nothing is judged.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from foible.data import Dataset, load
from foible.images import to_floats
from foible.networks import zoo
from foible.networks.files import Entry, load_folder, save_basket
from foible.networks.preprocess import Preprocess

MEAN, STD = (0.4914, 0.4822, 0.4465), (0.247, 0.2435, 0.2616)
EPS, STEP, STEPS = 8 / 255, 2 / 255, 7
BATCH = 256


def changed(images: Tensor) -> Tensor:
    """Moved by up to 4 pixels and half of them mirrored. images: (n, 3, 32, 32) uint8 on the GPU."""
    n, _, height, width = images.shape
    wide = F.pad(images, (4, 4, 4, 4))
    top, left = torch.randint(0, 9, (2, n, 1), device=images.device)
    rows, columns = top + torch.arange(height, device=images.device), left + torch.arange(width, device=images.device)
    columns = torch.where(torch.rand(n, 1, device=images.device) < 0.5, columns, columns.flip(1))
    return wide[torch.arange(n, device=images.device)[:, None, None], :, rows[:, :, None], columns[:, None, :]].permute(
        0, 3, 1, 2
    )


class Step:
    """One step of training, recorded once."""

    def __init__(self, network: nn.Module, how: Preprocess, robust: bool, decay: float) -> None:
        self.network, self.how, self.robust = network, how, robust
        self.rate = torch.tensor(0.0, device="cuda")  # recording changes no weights
        self.weights: list[Tensor] = list(network.parameters())
        self.decay = decay
        self.speed = [torch.zeros_like(weight) for weight in self.weights]
        self.pixels = torch.rand(BATCH, 3, 32, 32, device="cuda")
        self.labels = torch.zeros(BATCH, dtype=torch.int64, device="cuda")
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.once()
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.loss = self.once()

    def logits(self, pixels: Tensor) -> Tensor:
        with torch.autocast("cuda", torch.bfloat16, cache_enabled=False):
            made: Tensor = self.network(self.how(pixels).contiguous(memory_format=torch.channels_last))
        return made.float()

    def once(self) -> Tensor:
        pixels = self.pixels
        if self.robust:
            moved = (pixels + EPS * (2 * torch.rand_like(pixels) - 1)).clamp(0, 1)
            for _ in range(STEPS):
                at = moved.detach().requires_grad_()
                [slope] = torch.autograd.grad(F.cross_entropy(self.logits(at), self.labels), at)
                moved = (moved + STEP * slope.sign()).clamp(pixels - EPS, pixels + EPS).clamp(0, 1)
            pixels = moved.detach()
        loss = F.cross_entropy(self.logits(pixels), self.labels)
        slopes = list(torch.autograd.grad(loss, self.weights))
        with torch.no_grad():  # SGD, momentum 0.9 of Nesterov's kind; PyTorch's own would read the rate on the CPU
            torch._foreach_add_(slopes, self.weights, alpha=self.decay)
            torch._foreach_mul_(self.speed, 0.9)
            torch._foreach_add_(self.speed, slopes)
            torch._foreach_add_(slopes, self.speed, alpha=0.9)
            torch._foreach_mul_(slopes, self.rate)
            torch._foreach_sub_(self.weights, slopes)
        return loss.detach()


def accuracy(network: nn.Module, how: Preprocess, data: Dataset) -> float:
    network.eval()
    images, labels = data.images.cuda(), data.labels.cuda()
    with torch.no_grad():
        right = [
            (network(how(to_floats(a))).argmax(1) == b).sum()
            for a, b in zip(images.split(1000), labels.split(1000), strict=True)
        ]
    network.train()
    return int(torch.stack(right).sum()) / len(labels)


def train(name: str, folder: Path, spec: str, epochs: int = 0) -> None:
    """One network into FOLDER/NAME."""
    robust = name == "robust"
    depth, usual, peak = (20, 16, 0.1) if robust else (int(name), 80 if int(name) < 40 else 36, 0.2)
    epochs = epochs or usual
    torch.manual_seed(depth)
    data, test = load(spec, split="train", quiet=True), load(spec, split="test", quiet=True)
    images, labels = data.images.cuda(), data.labels.cuda()
    shape = (3, 32, 32)
    network = zoo.build(f"resnet:{depth}", shape, len(data.classes)).cuda()
    network = network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    how = Preprocess(MEAN, STD)
    step = Step(network, how, robust, 5e-4)
    count = len(images) // BATCH
    total, done, started = count * epochs, 0, time.perf_counter()
    for epoch in range(epochs):
        for rows in torch.randperm(len(images), device="cuda")[: count * BATCH].view(count, BATCH):
            part = done / total
            step.rate.fill_(peak * (part / 0.2 if part < 0.2 else (1 - part) / 0.8))
            step.pixels.copy_(to_floats(changed(images[rows])))
            step.labels.copy_(labels[rows])
            step.graph.replay()
            done += 1
        if epoch % 10 == 9:
            print(
                f"{name}: epoch {epoch + 1}, loss {float(step.loss):.3f}, {time.perf_counter() - started:.0f} s",
                flush=True,
            )
    network.eval()
    right = accuracy(network, how, test)
    print(f"{name}: {100 * right:.2f} % of test, {time.perf_counter() - started:.0f} s", flush=True)
    plain = network.to(memory_format=torch.contiguous_format)
    entry = Entry(
        "robust" if robust else f"resnet-{depth}", plain.cpu(), how, data.classes, shape, f"resnet:{depth}",
        accuracy={"test": right},
    )  # fmt: skip
    save_basket(folder / name, [entry])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="20,32,44,56,robust")
    parser.add_argument("--epochs", type=int, default=0, help="16 to 80, by the network, unless given")
    parser.add_argument("--one", action="store_true", help="train here, in this process")
    options = parser.parse_args()
    names = options.only.split(",")
    if options.one:
        train(names[0], options.folder, "cifar10", options.epochs)
        return
    command = [sys.executable, "-m", "benchmarks.deep_networks", str(options.folder), "--one"]
    command += ["--epochs", str(options.epochs), "--only"]
    for running in [subprocess.Popen([*command, name]) for name in names]:
        if running.wait():
            raise SystemExit(1)
    folders = [options.folder / name for name in names if name != "robust"]
    if folders:
        save_basket(options.folder, [entry for folder in folders for entry in load_folder(folder)])


if __name__ == "__main__":
    main()
