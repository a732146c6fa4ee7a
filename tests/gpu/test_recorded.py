"""`closest` on a GPU: recorded steps find what steps taken one by one find. Needs CUDA."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from foible.search.nearest import length
from foible.search.nearest import recorded as recording
from foible.search.nearest.closest import closest

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")


@pytest.mark.parametrize("norm", ["l2", "linf"])
@pytest.mark.parametrize("targeted", [False, True])
def test_as_near_as_step_by_step(norm: str, targeted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    layers = [nn.Conv2d(1, 16, 3), nn.ReLU(), nn.Conv2d(16, 16, 3), nn.ReLU(), nn.Flatten(), nn.Linear(16 * 64, 6)]
    network = nn.Sequential(*layers).cuda().requires_grad_(False)
    images = torch.rand(40, 1, 12, 12, generator=torch.Generator().manual_seed(1)).cuda()
    labels = network(images).argmax(1)
    targets = (labels + 1) % 6 if targeted else None
    graphs = 0
    record = recording._record

    def counted(*given: object) -> object:
        nonlocal graphs
        made = record(*given)  # type: ignore[arg-type]
        graphs += made is not None
        return made

    monkeypatch.setattr(recording, "_record", counted)
    quick = closest(network, images, labels, targets=targets, norm=norm)
    assert graphs > 0
    monkeypatch.setattr(recording, "_record", lambda *_: None)
    plain = closest(network, images, labels, targets=targets, norm=norm)
    assert quick.found.all()
    assert plain.found.all()
    assert torch.equal(quick.forwards, plain.forwards)
    ours, theirs = (length(one.images - images, norm) for one in (quick, plain))
    assert torch.allclose(ours.mean(), theirs.mean(), rtol=0.01)


def test_a_model_that_looks_at_what_it_computes_is_asked_in_the_ordinary_way() -> None:
    network = nn.Sequential(nn.Flatten(), nn.Linear(16, 3)).cuda().requires_grad_(False)

    def model(images: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = network(images)
        return logits if float(logits.detach().abs().max()) >= 0 else -logits

    images = torch.rand(20, 1, 4, 4).cuda()
    labels = network(images).argmax(1)
    assert closest(model, images, labels).found.all()
