"""CPPNs drawn by one GPU kernel, where Triton can be had: a program takes one genome after another, and keeps the
values of its nodes in a small piece of memory of its own."""

from __future__ import annotations

import torch
from torch import Tensor

from foible import randomness_gpu
from foible.spaces.cppn.genome import INPUTS, Genomes

try:
    import triton
    import triton.language as tl
except ImportError:  # a CPU build of PyTorch, or an operating system without it
    triton = None

BLOCK = 256  # pixels of one program
EACH = 16  # programs for each processor of the GPU

if triton is not None:

    @triton.jit  # type: ignore[untyped-decorator]
    def _node(grid, pixels, place, inside, memory, link, weight, first, last, kind, block: tl.constexpr):  # type: ignore[no-untyped-def]
        """The value of one node: what its connections bring, through its activation."""
        total = tl.zeros([block], tl.float32)
        for edge in range(first, last):
            source = tl.load(link + edge).to(tl.int32)
            if source < 4:
                value = tl.load(grid + source * pixels + place, mask=inside, other=0.0)
            else:
                value = tl.load(memory + (source - 4) * block + tl.arange(0, block))
            total += tl.load(weight + edge) * value
        if kind == 0:
            made = tl.sin(total)
        elif kind == 1:
            made = 2.0 / (1.0 + tl.exp(-total)) - 1.0
        elif kind == 2:
            made = tl.exp(-total * total)
        else:
            made = tl.minimum(tl.maximum(total, -1.0), 1.0)
        return made

    @triton.jit  # type: ignore[untyped-decorator]
    def _kernel(  # type: ignore[no-untyped-def]
        hidden, activation, source, weight, starts, grid, out, memory, tasks, parts, pixels, places, most,
        outputs: tl.constexpr, block: tl.constexpr,
    ):  # fmt: skip
        program = tl.program_id(0)
        own = memory + program.to(tl.int64) * most * block
        for task in range(program, tasks, tl.num_programs(0)):
            genome = (task // parts).to(tl.int64)
            place = (task % parts) * block + tl.arange(0, block)
            inside = place < pixels
            link, load = source + genome * places, weight + genome * places
            start, kinds = starts + genome * (most + outputs + 1), activation + genome * (most + outputs)
            for node in range(0, tl.load(hidden + genome).to(tl.int32)):
                made = _node(
                    grid, pixels, place, inside, own, link, load, tl.load(start + node), tl.load(start + node + 1),
                    tl.load(kinds + node).to(tl.int32), block,
                )  # fmt: skip
                tl.store(own + node * block + tl.arange(0, block), made)
            for output in tl.static_range(outputs):
                node = most + output
                made = _node(
                    grid, pixels, place, inside, own, link, load, tl.load(start + node), tl.load(start + node + 1),
                    tl.load(kinds + node).to(tl.int32), block,
                )  # fmt: skip
                tl.store(out + (genome * outputs + output) * pixels + place, made, mask=inside)


def works(grid: Tensor) -> bool:
    return grid.is_cuda and triton is not None and randomness_gpu.works()


def draw(genomes: Genomes, grid: Tensor, outputs: int) -> Tensor:
    """(n, outputs, pixels): what the outputs are. grid: (4, pixels)."""
    n, pixels, most = len(genomes.hidden), grid.shape[1], genomes.activation.shape[1] - outputs
    nodes = torch.arange(INPUTS, INPUTS + most + outputs + 1, device=grid.device, dtype=torch.int16)
    starts = torch.searchsorted(genomes.target, nodes.expand(n, -1).contiguous(), out_int32=True)
    out = grid.new_empty(n, outputs, pixels)
    parts = -(-pixels // BLOCK)
    many = torch.cuda.get_device_properties(grid.device).multi_processor_count * EACH
    programs = max(1, min(many, n * parts))
    memory = grid.new_empty(programs * most * BLOCK)
    _kernel[(programs,)](
        genomes.hidden, genomes.activation, genomes.source, genomes.weight, starts, grid.contiguous(), out, memory,
        n * parts, parts, pixels, genomes.weight.shape[1], most, outputs=outputs, block=BLOCK, num_warps=4,
    )  # fmt: skip
    return out
