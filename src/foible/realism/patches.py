"""Realism without a network: the local structure of clean images, learnt from their patches.

The prior is that of Zoran and Weiss, From Learning Models of Natural Image Patches to Whole Image Restoration (2011): a
mixture of Gaussians over small patches without their mean, here at two scales. An image is told by four figures, for
each scale the mean log-density of its patches and that of its worst fiftieth. Its distance is how many standard
deviations these lie from those of clean images, either way: too smooth is as far as too rough, so that a blank or
blurred image is not called more real than real ones. Brightness is not looked at, and a negative counts as its image.

To these flat patches are ordinary: there are skies. So the rim of an image is looked at apart, beside that of the image
that it was made of: what of it is of one colour now, as the wedge that a turned photograph leaves, counts against it,
unless the rims of clean images are so too.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d, one_hot, pad, unfold

from foible.images import to_floats
from foible.randomness import integers
from foible.realism.typical import Typical, check_shape

PATCHES = 12_000  # to learn each scale's mixture from
KINDS_OF_PATCH = 8  # Gaussians in a mixture
ROUNDS = 5  # of expectation and maximisation
NOISE = 2 / 255  # standard deviation that every direction has at least: rounding, and flat patches
WORST = 0.02  # share of an image's patches that count as its worst
WEDGE = 0.02  # share of the rim, newly of one colour, that costs a score of one
FLATTEST = 0.95  # so many of the clean images have no more of their rim in one colour than is ordinary
AT_ONCE = 16_384  # patches judged together; bounds the memory
AT_ONCE_GPU = 524_288  # there the number of launches counts, not what fits into a cache


@dataclass(frozen=True, eq=False)
class _Mixture:
    """Gaussians around zero. whiten: (k, d, d), inverse Cholesky factors of the covariances. weight: (k,), the log of
    each one's share less half the log of its determinant."""

    whiten: Tensor
    weight: Tensor

    @staticmethod
    def fit(patches: Tensor) -> _Mixture:
        """patches: (m, d). Starts from patches of equal contrast, from flat to strong, so nothing has to be drawn."""
        count, size = patches.shape
        rank = patches.norm(dim=1).argsort(stable=True).argsort(stable=True)
        share = one_hot(rank * KINDS_OF_PATCH // count, KINDS_OF_PATCH).float()
        floor = NOISE**2 * torch.eye(size, dtype=torch.float64, device=patches.device)
        for _ in range(ROUNDS):
            total = share.sum(0) + 1
            covariances = [
                (patches.t() @ (patches * column[:, None]) / mass).double() + floor
                for column, mass in zip(share.t(), total, strict=True)
            ]
            factors = torch.linalg.cholesky(torch.stack(covariances))
            whiten = torch.linalg.solve_triangular(factors, torch.eye(size).to(factors), upper=False)
            weight = (total / total.sum()).log() - factors.diagonal(dim1=1, dim2=2).log().sum(1)
            mixture = _Mixture(whiten.float(), weight.float())
            share = mixture.each(patches).softmax(1)
        return mixture

    def each(self, patches: Tensor) -> Tensor:
        """(m, k) log-densities, up to a constant."""
        kinds, size, _ = self.whiten.shape
        white = patches @ self.whiten.reshape(kinds * size, size).t()
        return self.weight - 0.5 * white.square_().view(-1, kinds, size).sum(2)


@dataclass(frozen=True, eq=False)
class Patches:
    """The distance of an image's four figures from those of clean ones, each in standard deviations: root mean square.

    centre, spread: (figures,), of held-out clean images. rim: (), how much of it in one colour is
    ordinary.
    """

    shape: tuple[int, ...]
    scales: tuple[_Mixture, ...]
    centre: Tensor
    spread: Tensor
    rim: Tensor
    typical: Typical

    @staticmethod
    def fit(images: Tensor, held: Tensor, seed: int) -> Patches:
        shape = tuple(images.shape[1:])
        most = max(48, 40_000_000 // images[0].numel())
        images, held = _evenly(images, most), _evenly(held, max(16, most // 4))
        side = _side(shape)
        scales = []
        for scale in range(2 if min(shape[1:]) // 2 >= side else 1):
            each = -(-PATCHES // len(images))
            sample = torch.cat([_drawn(part, scale, side, each, seed) for part in _parts(images, scale, side)])
            scales.append(_Mixture.fit(sample))
        none = torch.zeros((), device=images.device)
        rim = torch.cat([_flat_rim(images), _flat_rim(held)]).quantile(FLATTEST)
        bare = Patches(shape, tuple(scales), none, none, rim, Typical(none, none))
        figures = bare.figures(held)
        centre, spread = figures.mean(0), figures.std(0, correction=0).clamp_min(1e-3)
        distances = ((figures - centre) / spread).square().mean(1).sqrt()
        return Patches(shape, bare.scales, centre, spread, rim, Typical.of(distances))

    def figures(self, images: Tensor) -> Tensor:
        """(n, 2 × scales): for each scale the mean log-density of all patches, and of the worst."""
        columns = []
        for scale, mixture in enumerate(self.scales):
            rows = []
            for part in _parts(images, scale, _side(self.shape)):
                patches = _patches(part, scale, _side(self.shape))
                density = mixture.each(patches.flatten(0, 1)).logsumexp(1).view(len(part), -1)
                worst = density.topk(max(1, round(WORST * density.shape[1])), largest=False).values
                rows.append(torch.stack([density.mean(1), worst.mean(1)], 1))
            columns.append(torch.cat(rows))
        return torch.cat(columns, 1)

    @torch.no_grad()
    def score(self, images: Tensor, origins: Tensor | None = None) -> Tensor:
        check_shape(images, self.shape)
        if not len(images):
            return torch.empty(0, device=self.centre.device)
        images = images.to(self.centre.device)
        far = (self.figures(images) - self.centre) / self.spread
        score = self.typical.score(far.square().mean(1).sqrt())
        if origins is None:
            return score
        ordinary = torch.maximum(_flat_rim(origins.to(images.device)), self.rim)
        return score - (_flat_rim(images) - ordinary).clamp_min(0) / WEDGE


def _flat_rim(images: Tensor) -> Tensor:
    """(n,): the share of the outermost pixels that are like their neighbours along the rim and inwards."""
    if min(images.shape[2:]) < 3:
        return torch.zeros(len(images), device=images.device)
    across, down = images, images.transpose(2, 3)
    rims = [(side[:, :, outer], side[:, :, inner]) for side in (across, down) for outer, inner in ((0, 1), (-1, -2))]
    flat = [((rim[..., 1:] == rim[..., :-1]) & (rim == inside)[..., 1:]).all(1) for rim, inside in rims]
    return torch.cat(flat, 1).float().mean(1)


def _side(shape: tuple[int, ...]) -> int:
    """Pixels that a patch is wide: 3 in the smallest images, otherwise 5."""
    return 3 if min(shape[1:]) < 16 else 5


def _patches(images: Tensor, scale: int, side: int) -> Tensor:
    """(n, patches, d): every patch of a small image, of larger ones a grid that leaves no pixel out, each channel of
    each without its mean. At scale 1 images are half as wide."""
    images = avg_pool2d(to_floats(images), 2) if scale else to_floats(images)
    stride = min(side, max(1, min(images.shape[2:]) // 14))
    wide = pad(images, (side // 2,) * 4, mode="replicate")
    if wide.is_cuda:  # where copying a view is several times as fast
        seen = wide.unfold(2, side, stride).unfold(3, side, stride)  # (n, channels, down, across, side, side)
        flat = seen.permute(0, 1, 4, 5, 2, 3).contiguous()
    else:
        flat = unfold(wide, side, stride=stride)
    split = flat.view(len(images), images.shape[1], side * side, -1)
    return (split - split.mean(2, keepdim=True)).flatten(1, 2).transpose(1, 2)


def _parts(images: Tensor, scale: int, side: int) -> tuple[Tensor, ...]:
    """The images in parts of about AT_ONCE patches; how many does not depend on how many images there are."""
    at_once = AT_ONCE_GPU if images.is_cuda else AT_ONCE
    parts: tuple[Tensor, ...] = images.split(max(1, at_once // _patches(images[:1], scale, side).shape[1]))
    return parts


def _drawn(images: Tensor, scale: int, side: int, count: int, seed: int) -> Tensor:
    """`count` patches of each image, (n × count, d)."""
    patches = _patches(images, scale, side)
    lanes = torch.arange(len(images), device=images.device)
    drawn = integers(seed, lanes, scale, stream="realism.patches", high=patches.shape[1], count=count)
    return patches.gather(1, drawn[..., None].expand(-1, -1, patches.shape[2])).flatten(0, 1)


def _evenly(images: Tensor, most: int) -> Tensor:
    """At most so many of the images, evenly spread."""
    if len(images) <= most:
        return images
    return images[torch.linspace(0, len(images) - 1, most, dtype=torch.float64, device=images.device).long()]
