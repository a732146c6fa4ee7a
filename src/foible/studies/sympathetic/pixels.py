"""Where x′ differs from x: how far and how locally, beside saliency and plain descent on pixels; whether a second
generator points at the same place; and whether other networks accept x′."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from foible.basket import Basket
from foible.spaces import Pixels
from foible.studies.common import Row, mean_row, share_row
from foible.studies.sympathetic.mending import Descent, Images, Mended, mend
from foible.studies.sympathetic.parts import Case

WHERE, STABLE, PEERS = (
    "Where x′ differs from x, mistakes of the network on pixels (as a PNG)",
    "Does a second generator point at the same place? Correlation of |x′ − x|",
    "Do other networks accept x′? Mistakes of the network on pixels (as a PNG)",
)
MOST = 0.9  # of the change is in so many pixels
INK, BESIDE = 0.1, 2  # a pixel above is ink; pixels within so many of one are beside it


def pixel_descent(case: Case, how: Descent) -> Mended:
    """The same descent, on pixels in place of codes (Szegedy et al. 2013's idea, to the true class)."""
    channels, height, width = case.wrong.images.shape[1:]
    space = Pixels(f"{channels}x{height}x{width}", percent=100, reach=1)
    return mend(space, case.basket, case.suspect, case.wrong, how)


def saliency(case: Case, given: Images) -> Tensor:
    """(n, height, width): |∂ score of the right class / ∂x|, the largest over channels (Simonyan et al. 2013)."""
    device = case.basket.device
    with torch.enable_grad():
        images = given.images.to(device).clone().requires_grad_()
        said = case.basket.judge(images, [case.suspect])[0]
        [slope] = torch.autograd.grad(said.gather(1, given.aims.to(device)[:, None]).sum(), images)
    return slope.abs().amax(1)


def map_of(change: Tensor) -> Tensor:
    """(n, height, width): mean |change| over channels."""
    return change.abs().mean(1)


def area(maps: Tensor) -> Tensor:
    """(n,): the smallest share of pixels that holds `MOST` of maps (n, height, width)."""
    sizes = maps.flatten(1).sort(1, descending=True).values
    held = sizes.cumsum(1) / sizes.sum(1, keepdim=True).clamp_min(1e-12)
    return ((held < MOST).sum(1) + 1) / sizes.shape[1]


def on_ink(maps: Tensor, images: Tensor) -> Tensor:
    """(n,): the share of maps (n, height, width) on or beside what is drawn in the images."""
    ink = (images.amax(1, keepdim=True) > INK).float()
    near = F.max_pool2d(ink, 2 * BESIDE + 1, 1, BESIDE)[:, 0]
    return (maps * near).flatten(1).sum(1) / maps.flatten(1).sum(1).clamp_min(1e-12)


def where_rows(name: str, maps: Tensor, images: Tensor, change: Tensor | None) -> list[Row]:
    """maps: (n, height, width) of these images. change: where there is one, its length is told."""
    rows = []
    if change is not None:
        rows.append(mean_row(WHERE, f"{name}: ‖x′ − x‖", None, change.flatten(1).norm(dim=1).tolist(), least=0))
    holds = f"{name}: pixels that hold {MOST:.0%} of it, %".replace("0%", "0 %")
    return [
        *rows,
        mean_row(WHERE, holds, None, (100 * area(maps)).tolist(), least=0, most=100),
        mean_row(
            WHERE, f"{name}: on or beside the strokes, %", None, (100 * on_ink(maps, images)).tolist(), least=0,
            most=100,
        ),
    ]  # fmt: skip


def ink_row(images: Tensor) -> Row:
    """What an even change would have on the strokes."""
    even = torch.ones_like(images[:, 0])
    return mean_row(
        WHERE, "an even change: on or beside the strokes, %", None, (100 * on_ink(even, images)).tolist(), least=0,
        most=100,
    )  # fmt: skip


def correlation(one: Tensor, other: Tensor) -> Tensor:
    """(n,): Pearson's, of maps (n, height, width)."""
    one, other = (maps.flatten(1) - maps.flatten(1).mean(1, keepdim=True) for maps in (one, other))
    return torch.nn.functional.cosine_similarity(one, other, dim=1, eps=1e-12)


def stable_rows(name: str, first: Mended, second: Mended) -> list[Row]:
    """Maps of the same mistakes under two generators, beside those of two different mistakes."""
    both = (first.found & second.found).nonzero()[:, 0]
    maps = [map_of(one.change[both]) for one in (first, second)]
    return [
        mean_row(STABLE, f"{name}: the same mistake", None, correlation(*maps).tolist(), least=-1, most=1),
        mean_row(
            STABLE, f"{name}: two different mistakes", None, correlation(maps[0], maps[1].roll(1, 0)).tolist(),
            least=-1, most=1,
        ),
    ]  # fmt: skip


def peer_rows(name: str, basket: Basket, suspect: str, images: Tensor, aims: Tensor) -> list[Row]:
    """How many of the other networks give these images (n, …) their class."""
    peers = basket.peers(suspect)
    if not peers:
        return []
    right = basket.predict(images, peers).argmax(2) == aims.cpu()
    rows = [share_row(PEERS, f"{name}: all {len(peers)} others accept it, %", None, int(right.all(0).sum()), len(aims))]
    if len(peers) > 2:
        most = int((2 * right.sum(0) > len(peers)).sum())
        rows.append(share_row(PEERS, f"{name}: most of them do, %", None, most, len(aims)))
    return rows
