"""Fleets of convolutional networks and transformers on a GPU: they learn, they are asked in float32, and rounded looks
agree with it."""

from __future__ import annotations

import pytest
import torch

from foible.data import load
from foible.networks.fleet import Fleet
from foible.networks.material import accuracies
from foible.recipes.train.train import train

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
GPU = torch.device("cuda")


def test_a_chain_of_convolutions_learns_alone_and_in_a_fleet() -> None:
    before = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    together = train("cnn4", "digits", seeds=3, epochs=6, device="cuda", quiet=True)
    [alone] = train("cnn4", "digits", seeds=[1], epochs=6, device="cuda", quiet=True)
    assert (torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32) == before
    assert all(entry.accuracy["test"] > 0.9 for entry in (*together, alone))
    assert abs(together[1].accuracy["test"] - alone.accuracy["test"]) < 0.05
    assert together[0].training["steps"] == int(together[0].module.state_dict()["norm1.num_batches_tracked"])


def test_rounded_looks_agree_and_exact_ones_are_those_of_the_module() -> None:
    entries = train("cnn4", "digits", seeds=2, epochs=3, device="cuda", quiet=True)
    fleet = Fleet([entry.module for entry in entries], [0, 1], device=GPU)
    assert fleet.how == "convolved"
    test = load("digits", "test")
    asked = test.images.to(GPU), test.labels.to(GPU), entries[0].preprocess
    exact, rough = accuracies(fleet, *asked), accuracies(fleet, *asked, rough=True)
    assert exact == pytest.approx([entry.accuracy["test"] for entry in entries], abs=0.003)
    assert rough == pytest.approx(exact, abs=0.02)
    shown = entries[0].preprocess(test.floats()[:20])
    assert torch.allclose(fleet.predict(shown.to(GPU))[0].cpu(), entries[0].module(shown), rtol=1e-3, atol=1e-3)


def test_transformers_learn_in_a_fleet_and_are_asked_as_the_module() -> None:
    entries = train("vit4:patch=4", "digits", seeds=3, epochs=30, device="cuda", quiet=True)
    assert all(entry.accuracy["test"] > 0.85 for entry in entries)
    fleet = Fleet([entry.module for entry in entries], [0, 1, 2], device=GPU)
    assert fleet.how == "attended"
    test = load("digits", "test")
    asked = test.images.to(GPU), test.labels.to(GPU), entries[0].preprocess
    assert accuracies(fleet, *asked, rough=True) == pytest.approx(accuracies(fleet, *asked), abs=0.02)
    shown = entries[1].preprocess(test.floats()[:20])
    assert torch.allclose(fleet.predict(shown.to(GPU))[1].cpu(), entries[1].module(shown), rtol=1e-3, atol=1e-3)
