"""Networks of timm and torchvision by name, with their weights or the user's checkpoint, preprocessed as trained."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from torch import nn

from foible import class_lists
from foible.class_names import imagenet
from foible.errors import UserError
from foible.networks.files import fit
from foible.networks.load import state_dicts
from foible.networks.load.opened import Opened, first_line, optional
from foible.networks.preprocess import Preprocess
from foible.text import did_you_mean


def open_timm(name: str, options: Mapping[str, str], size: tuple[int, int] | None, ema: bool) -> Opened:
    """A classifier of timm: `NAME`, `NAME.TAG`, or `hf-hub:ORG/NAME`. `size`: the input the user asks for."""
    what = f"timm:{name}"
    timm, data = (optional(module, "timm", what) for module in ("timm", "timm.data"))
    held, more, config = None, {}, None
    if ":" in name:  # hf-hub: and local-dir: have weights of their own
        if "checkpoint" in options:
            raise UserError(f"{what} brings its own weights: leave checkpoint= out, or name the architecture alone")
    elif not timm.is_model(name):
        raise UserError(f"timm has no network {name!r}{did_you_mean(name, timm.list_models())}; see timm.list_models()")
    else:
        config = _made(lambda: timm.models.get_pretrained_cfg(name), what, "")
    if "checkpoint" in options:
        held = state_dicts.read(options["checkpoint"], ema)
        more = _timm_shape(held, config)
    advice = "" if held is not None else _timm_advice(name, config)
    module = _made(lambda: _timm_made(timm, name, held is None, more, size), what, advice)
    own = None
    if held is not None:
        fit(module, held.state, held.file)
        own = held.classes
    elif int(module.num_classes) == 1000 or module.pretrained_cfg.get("label_names"):
        own = class_lists.names_in(module.pretrained_cfg.get("label_names")) or imagenet()
        own = class_lists.checked(own, what)
    given = data.resolve_data_config(args={}, pretrained_cfg=dict(module.pretrained_cfg))
    how = _made(lambda: timm_preprocess(given, size), what, "")
    channels = more.get("in_chans", 3)
    opened = Opened(name.rpartition("/")[2], module.eval(), how, own, int(module.num_classes), channels, how.size)
    if channels == len(how.mean):
        return opened
    why = f"timm's configuration is for {len(how.mean)} channels, the network takes {channels}"
    return replace(opened, preprocess=None, why=why)


def _timm_made(timm: Any, name: str, pretrained: bool, more: dict[str, int], size: tuple[int, int] | None) -> Any:
    if size is not None:
        try:
            return timm.create_model(name, pretrained=pretrained, img_size=size, **more)
        except TypeError:  # convolutional networks take any size, and do not know the word
            pass
    return timm.create_model(name, pretrained=pretrained, **more)


def _timm_shape(held: state_dicts.Checkpoint, config: Any) -> dict[str, int]:
    """num_classes and in_chans, as the checkpoint's own last and first layers have them."""
    found = {}
    for key, word, side in ((config.classifier, "num_classes", 0), (config.first_conv, "in_chans", 1)):
        key = key[0] if isinstance(key, tuple | list) else key
        weight = state_dicts.find(held.state, f"{key}.weight") if isinstance(key, str) else None
        if weight is not None and weight.ndim > 1:
            found[word] = int(weight.shape[side])
    return found


def timm_preprocess(data: Mapping[str, Any], size: tuple[int, int] | None = None) -> Preprocess:
    """timm's data configuration (input_size, crop_pct, crop_mode, …) as its evaluation does it."""
    height, width = size or tuple(data["input_size"])[-2:]
    scaled = tuple(math.floor(side / data["crop_pct"]) for side in (height, width))
    resize: int | tuple[int, int] = (scaled[0], scaled[1])
    mean, std = (tuple(float(value) for value in data[key]) for key in ("mean", "std"))
    how = Preprocess(mean, std, (height, width), resize, _interpolation(data["interpolation"]))
    if data["crop_mode"] == "squash":
        return how
    if data["crop_mode"] == "border":
        return replace(how, fit="contain", fill=tuple(min(255, max(0, round(255 * value))) for value in mean))
    if scaled[0] == scaled[1]:
        return replace(how, resize=scaled[0])
    return replace(how, fit="cover", interpolation="bilinear")  # what timm takes there, whatever it is told


def _timm_advice(name: str, config: Any) -> str:
    place = getattr(config, "hf_hub_id", None) or name.partition(":")[2] or f"timm/{name}"
    return (
        f"download model.safetensors from huggingface.co/{place} where there is a connection, and give "
        f"timm:{name.rpartition('/')[2].rpartition(':')[2]}?checkpoint=FILE&classes=imagenet (or classes=FILE)"
    )


def open_torchvision(name: str, options: Mapping[str, str], ema: bool) -> Opened:
    """A classifier of torchvision with its default weights, those named by `preset=`, or the user's checkpoint."""
    models = optional("torchvision.models", "torchvision", f"torchvision:{name}")
    known = models.list_models(module=models)
    if name not in known:
        raise UserError(f"torchvision has no classifier {name!r}{did_you_mean(name, known)}; see list_models()")
    presets = models.get_model_weights(name)
    preset = presets.DEFAULT
    if "preset" in options:
        if options["preset"] not in presets.__members__:
            listed = ", ".join(presets.__members__)
            raise UserError(f"torchvision:{name} has no preset {options['preset']!r}; it has {listed}")
        preset = presets[options["preset"]]
    how = torchvision_preprocess(preset.transforms())
    if "checkpoint" not in options:

        def download() -> nn.Module:
            preset.get_state_dict(progress=False, check_hash=True, weights_only=True)  # the builder is less strict
            made: nn.Module = models.get_model(name, weights=preset)
            return made

        advice = f"download {preset.url} where there is a connection, and give torchvision:{name}?checkpoint=FILE"
        module = _made(download, f"torchvision:{name}", f"{advice}&classes=imagenet")
        own = class_lists.checked(preset.meta["categories"], f"torchvision:{name}")
        return Opened(name, module.eval(), how, own, len(own), 3, how.size)
    held = state_dicts.read(options["checkpoint"], ema)
    head = list(models.get_model(name, weights=None).state_dict())[-1]
    last = state_dicts.find(held.state, head)
    outputs = int(last.shape[0]) if last is not None and last.ndim else 1000
    module = _made(lambda: models.get_model(name, weights=None, num_classes=outputs), f"torchvision:{name}", "")
    fit(module, held.state, held.file)
    return Opened(name, module.eval(), how, held.classes, outputs, 3, how.size)


def torchvision_preprocess(preset: Any) -> Preprocess:
    """A preset's resize_size, crop_size, interpolation, mean and std; `antialias` is what Pillow always does."""
    size, resize = (_sides(getattr(preset, key)) for key in ("crop_size", "resize_size"))
    return Preprocess(
        tuple(float(value) for value in preset.mean),
        tuple(float(value) for value in preset.std),
        (size, size) if isinstance(size, int) else size,
        resize,
        _interpolation(preset.interpolation.value),
    )


def _sides(value: Any) -> int | tuple[int, int]:
    sides = [value] if isinstance(value, int) else list(value)
    return int(sides[0]) if len(sides) == 1 else (int(sides[0]), int(sides[1]))


def _interpolation(name: str) -> Any:
    return "bilinear" if name == "random" else str(name)


def _made(make: Callable[[], Any], what: str, advice: str) -> Any:
    try:
        return make()
    except UserError:
        raise
    except Exception as error:
        then = f": if the hub cannot be reached, {advice}" if advice else ""
        raise UserError(f"{what} could not be made ({first_line(error)}){then}") from error
