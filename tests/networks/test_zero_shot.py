"""Networks that compare an image with words: small random ones of transformers, against their own answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import foible
from foible.basket import Basket
from foible.data import Dataset
from foible.errors import UserError
from foible.networks.load.specs import open_networks

transformers = pytest.importorskip("transformers")

LETTERS = "abcdefghijklmnopqrstuvwxyz"
TOKENS = ["<|startoftext|>", "<|endoftext|>", *LETTERS, *(f"{letter}</w>" for letter in LETTERS)]
SMALL = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}


def write(folder: Path, kind: str = "clip") -> Any:
    """A random network of 32×32 pixels with its tokenizer and image processor, as save_pretrained leaves them."""
    torch.manual_seed(0)
    text = SMALL | {"vocab_size": len(TOKENS), "max_position_embeddings": 32, "bos_token_id": 0, "eos_token_id": 1,
                    "pad_token_id": 1}  # fmt: skip
    vision = SMALL | {"image_size": 32, "patch_size": 8}
    if kind == "clip":
        config = transformers.CLIPConfig(text_config=text, vision_config=vision, projection_dim=8)
        model = transformers.CLIPModel(config).eval()
    else:
        model = transformers.SiglipModel(transformers.SiglipConfig(text_config=text, vision_config=vision)).eval()
    for weight in model.parameters():  # as transformers begins them, all images look alike
        weight.data.add_(0.3 * torch.randn_like(weight))
    model.save_pretrained(folder)
    (folder / "vocab.json").write_text(json.dumps({token: number for number, token in enumerate(TOKENS)}))
    (folder / "merges.txt").write_text("#version: 0.2\n")
    tokens = {"tokenizer_class": "CLIPTokenizer", "model_max_length": 32, "pad_token": "<|endoftext|>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(tokens))
    how = {"image_processor_type": "CLIPImageProcessor", "size": {"shortest_edge": 32},
           "crop_size": {"height": 32, "width": 32}, "image_mean": [0.5] * 3, "image_std": [0.25] * 3}  # fmt: skip
    (folder / "preprocessor_config.json").write_text(json.dumps(how))
    return model


@pytest.mark.parametrize("kind", ["clip", "siglip"])
def test_it_says_of_each_class_what_the_network_says_of_its_sentence(tmp_path: Path, kind: str) -> None:
    model = write(tmp_path, kind)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    names, images = ("cat", "dog", "eel"), torch.rand(3, 3, 32, 32)
    padding = "max_length" if kind == "siglip" else True
    tokens = tokenizer([f"a photo of a {name}" for name in names], padding=padding, return_tensors="pt")
    with torch.no_grad():
        own = model(pixel_values=(images - 0.5) / 0.25, **tokens).logits_per_image
        basket = Basket.open([f"hf:{tmp_path}"], classes=names)
        ours = basket.judge(images)[0]
    assert basket.classes == names
    assert own.std(1).min() > 1e-3  # or the next line would say nothing
    torch.testing.assert_close(ours, own, atol=1e-4, rtol=1e-4)


def test_the_sentence_and_the_classes_are_the_users(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "names.txt").write_text("cat\nGreat_Dane, a dog\n")
    spec = f"hf:{tmp_path}?classes={tmp_path / 'names.txt'}"
    images = torch.rand(2, 3, 32, 32)

    def said(more: str) -> torch.Tensor:
        basket = Basket.open([spec + more])
        assert basket.classes == ("cat", "Great_Dane, a dog")
        return basket.judge(images)[0]

    plain, drawing, both = (
        said(""),
        said("&prompt=a drawing of a {}"),
        said("&prompt=a photo of a {}|a drawing of a {}"),
    )
    assert not torch.allclose(plain, drawing, atol=1e-3)
    assert not torch.allclose(plain, both, atol=1e-3)
    assert not torch.allclose(drawing, both, atol=1e-3)


def test_two_sentences_are_two_networks_of_a_hunt(tmp_path: Path) -> None:
    write(tmp_path)
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (12, 3, 32, 32), dtype=torch.uint8, generator=generator)
    data = Dataset("noise", "test", images, torch.arange(12) % 3, ("cat", "dog", "eel"))
    specs = [f"one=hf:{tmp_path}", f"two=hf:{tmp_path}?prompt=a photo of a {{}}|photo of a {{}}|a photo of {{}}"]
    found = foible.hunt(specs, data, trials=2, suspect="one", unlabelled=True, shrink=False, quiet=True)
    assert {row["suspect"] for row in found} == {"one"}
    assert all(row["networks"] == ["one", "two"] for row in found)


@pytest.mark.parametrize(
    ("spec", "classes", "says"),
    [
        ("", None, "does not say which classes"),
        ("?prompt=a photo of a cat", ("cat", "dog"), "expected a sentence with {} where the class stands"),
    ],
)
def test_what_is_missing_is_asked_for(tmp_path: Path, spec: str, classes: tuple[str, ...] | None, says: str) -> None:
    write(tmp_path)
    with pytest.raises(UserError, match=says):
        open_networks(f"hf:{tmp_path}{spec}", classes, (3, 32, 32))


def test_without_its_tokenizer_it_is_refused(tmp_path: Path) -> None:
    write(tmp_path)
    for name in ("vocab.json", "merges.txt", "tokenizer_config.json"):
        (tmp_path / name).unlink()
    with pytest.raises(UserError, match=r"its tokenizer (could not be read|reads different classes alike)"):
        open_networks(f"hf:{tmp_path}", ("cat", "dog"), (3, 32, 32))
