"""The plane of a 2-D latent space (Figs. 2, 3, 9): what c(g(z)) and c(x′) say over a grid, and why a descent fails.

A grid covers the codes from −REACH to REACH, where nearly all of the prior lies.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from foible.images import settle
from foible.studies.common import Row, share_row
from foible.studies.sympathetic.mending import ROWS, Images, Mended
from foible.studies.sympathetic.parts import Case

REACH = 4.0


@dataclass(frozen=True, eq=False)
class Plane:
    """A grid of side × side codes of a case whose generator has two dimensions, rows from the lowest second one."""

    case: Case
    side: int
    png: bool = False  # judge what a PNG holds; the paper does not

    @cached_property
    def codes(self) -> Tensor:
        """(side², 2)."""
        along = torch.linspace(-REACH, REACH, self.side, device=self.case.basket.device)
        second, first = torch.meshgrid(along, along, indexing="ij")
        return torch.stack([first, second], 2).view(-1, 2)

    @cached_property
    def drawn(self) -> Tensor:
        """(side², channels, height, width): g(z)."""
        with torch.no_grad():
            generator = self.case.space.on(self.codes.device)
            return torch.cat([generator.decode(part) for part in self.codes.split(ROWS)])

    @cached_property
    def said_of_drawn(self) -> Tensor:
        """(side²,): c(g(z))."""
        return self._judge(self.drawn).argmax(1)

    @torch.no_grad()
    def logits(self, images: Tensor) -> Tensor:
        """(n, side², classes) of x′, for images (n, …) shifted to every code of the grid."""
        rest = self.case.space.start(images.to(self.codes.device)).rest
        parts = [
            self._judge((self.drawn + some[:, None]).flatten(0, 1)).unflatten(0, (len(some), -1))
            for some in rest.split(max(1, ROWS // len(self.codes)))
        ]
        return torch.cat(parts)

    def _judge(self, images: Tensor) -> Tensor:
        case = self.case
        return case.basket.predict(settle(images) if self.png else images, [case.suspect])[0]


def failures(plane: Plane, came: Mended, most: int) -> tuple[Tensor, Tensor]:
    """Of up to `most` images that were not mended, spread over all of them: their rows, and whether (n,) the class is
    anywhere on the grid: then a local minimum was in the way."""
    failed = (~came.found).nonzero()[:, 0].cpu()
    if len(failed) > most:
        failed = failed[torch.linspace(0, len(failed) - 1, most, dtype=torch.float64).long()]
    given = came.given[failed.to(came.found.device)]
    return failed, present(plane, given)


def present(plane: Plane, given: Images) -> Tensor:
    """(n,) bool: whether x′ is given its class anywhere on the grid."""
    found = [
        (plane.logits(images).argmax(2) == aims.cpu()[:, None]).any(1)
        for images, aims in zip(given.images.split(16), given.aims.split(16), strict=True)
    ]
    return torch.cat([torch.empty(0, dtype=torch.bool), *found])


def failure_rows(what: str, there: Tensor) -> list[Row]:
    """Failures by their cause."""
    table, n = "Failures in two dimensions, by their cause", len(there)
    return [
        share_row(table, f"{what}: class absent from the grid, %", None, int((~there).sum()), n),
        share_row(table, f"{what}: local minimum, %", None, int(there.sum()), n),
    ]


def difference_rows(plane: Plane, given: Images, came: Mended) -> list[Row]:
    """How often the perturbed image is called otherwise than the perturbed reconstruction: over the grid, for the
    images as they are, and where the descent ended."""
    table, case = "The classifier of g(z) against that of x′ in two dimensions", plane.case
    said = plane.logits(given.images).argmax(2)
    apart = int((said != plane.said_of_drawn).sum())
    device = case.basket.device
    done = came.mended

    def of_drawn(images: Tensor, shift: Tensor) -> Tensor:
        with torch.no_grad():
            points = case.space.start(images.to(device))
            return case.basket.predict(case.space.on(device).decode(points.code + shift), [case.suspect])[0].argmax(1)

    plain = of_drawn(came.given.images, torch.zeros_like(came.shift))
    ended = of_drawn(done.given.images, done.shift)
    classes = torch.tensor([len(one.unique()) for one in said]).float()
    return [
        share_row(table, f"c(g(z)) ≠ c(x′), over the grids of {len(given)} mistakes, %", None, apart, said.numel()),
        share_row(
            table, "c(g(z)) ≠ c(x) for mistakes as they are, %", None,
            int((plain != case.said[came.given.index]).sum()), len(plain),
        ),
        share_row(
            table, "c(g(z + e)) ≠ c(x′) where they are mended, %", None,
            int((ended != done.given.aims.cpu()).sum()), len(ended),
        ),
        Row(table, "classes on the grid of c(g(z))", None, float(len(plane.said_of_drawn.unique()))),
        Row(table, "classes on the grid of c(x′), mean over mistakes", None, float(classes.mean()), n=len(given)),
    ]  # fmt: skip
