"""Networks that compare an image with words (CLIP and its like), as classifiers of the classes that are asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from foible.errors import UserError
from foible.networks.load.opened import first_line
from foible.text import shown

PROMPT = "a photo of a {}"
MOST_PROMPTS = 100
CLOSE = 1e-3  # of a logit; ours and the network's own on one image


class ZeroShot(nn.Module):
    """Images against the features of words, (classes, numbers), that were made when it was opened.

    The logits are those of the network: cosines times its scale, plus its bias where it has one.
    """

    words: Tensor

    def __init__(self, inner: nn.Module, words: Tensor) -> None:
        super().__init__()
        self.inner = inner
        self.register_buffer("words", words)

    def forward(self, images: Tensor) -> Tensor:
        model: Any = self.inner
        seen = _direction(model.get_image_features(pixel_values=images))
        logits: Tensor = seen @ self.words.T * model.logit_scale.exp()
        return logits if getattr(model, "logit_bias", None) is None else logits + model.logit_bias


def compares(transformers: Any, config: Mapping[str, Any]) -> bool:
    """Whether config.json is of a network that takes images and words, and not of a classifier made from one."""
    kinds = transformers.models.auto.modeling_auto.MODEL_FOR_ZERO_SHOT_IMAGE_CLASSIFICATION_MAPPING_NAMES
    made = config.get("architectures") or ()
    return config.get("model_type") in kinds and not any(str(one).endswith("ForImageClassification") for one in made)


def prompts_of(prompt: str | None, place: str) -> list[str]:
    """Sentences with {} where the class stands: those that were given, with | between them, or ours."""
    given = [PROMPT] if prompt is None else [one.strip() for one in prompt.split("|")]
    if len(given) > MOST_PROMPTS or not all("{}" in one for one in given):
        raise UserError(
            f"hf:{place}: prompt is {shown(prompt or '')[:100]!r}: expected a sentence with {{}} where the class "
            f"stands, as in prompt={PROMPT}, or up to {MOST_PROMPTS} of them with | between"
        )
    return given


@torch.no_grad()
def with_words(
    transformers: Any, module: Any, source: str, names: Sequence[str], prompts: Sequence[str], what: str
) -> ZeroShot:
    """The network with the features of these classes: the mean over the sentences, each of length one.

    It is asked once, about one image, in its own way: a network that combines images and words otherwise is refused.
    """
    advice = "put the files of its tokenizer beside config.json, as save_pretrained of its processor writes them"
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(source, trust_remote_code=False)
    except Exception as error:
        why = f"its tokenizer could not be read ({first_line(error)})"
        raise UserError(f"{what} compares images with words, and {why}: {advice}") from error
    padding = "max_length" if "siglip" in module.config.model_type else True  # as these were trained
    said = [name.partition(",")[0].replace("_", " ") for name in names]

    def tokens(sentence: str) -> Any:
        texts = [sentence.replace("{}", one) for one in said]
        return tokenizer(texts, padding=padding, truncation=True, return_tensors="pt")

    module, first = module.float().eval(), tokens(prompts[0])
    if len(first["input_ids"].unique(dim=0)) < len(
        set(said)
    ):  # transformers makes an empty one where files are missing
        raise UserError(f"{what} compares images with words, and its tokenizer reads different classes alike: {advice}")
    try:
        each = [_direction(module.get_text_features(**tokens(sentence))) for sentence in prompts]
        agree = _agree(module, ZeroShot(module, each[0]), first)
    except (TypeError, AttributeError, RuntimeError, ValueError):
        agree = False
    if not agree:
        raise UserError(
            f"foible does not know how {what}, a {shown(module.config.model_type)}, compares an image with words: give "
            "it as FILE.py:NAME, a function that makes a network of images"
        )
    if hasattr(module, "text_model"):
        module.text_model = None  # what it had to say has been said
    return ZeroShot(module, _unit(torch.stack(each).sum(0)))


def _agree(module: Any, made: ZeroShot, tokens: Any) -> bool:
    """Whether our logits of one image are those of the network itself."""
    side = int(getattr(getattr(module.config, "vision_config", module.config), "image_size", 224))
    image = torch.linspace(-1, 1, 3 * side * side).view(1, 3, side, side)
    own, ours = module(pixel_values=image, **tokens).logits_per_image, made(image)
    return own.shape == ours.shape and torch.allclose(own, ours, atol=CLOSE, rtol=CLOSE)


def _direction(features: Any) -> Tensor:
    """Of length one. Newer versions of transformers give an output with several fields."""
    return _unit(features if isinstance(features, Tensor) else features.pooler_output)


def _unit(features: Tensor) -> Tensor:
    length: Tensor = features.norm(dim=-1, keepdim=True)
    return features / length
