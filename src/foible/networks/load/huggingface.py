"""Networks of transformers, from a folder or the hub, preprocessed as their own image processor does it: classifiers,
and those that compare an image with words."""

from __future__ import annotations

import contextlib
import importlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from foible import class_lists
from foible.disk import ordinary
from foible.errors import UserError
from foible.networks.load.opened import Opened, first_line, optional
from foible.networks.load.zero_shot import compares, prompts_of, with_words
from foible.networks.preprocess import Preprocess, scaled
from foible.records import PLAIN as PLAIN_NAME
from foible.records import check, read_json
from foible.text import shown, some
from foible.views import INTERPOLATIONS

# Processors that resize, crop, rescale and normalise, in that order, and do nothing else to the image of a classifier.
PLAIN = {"ViT", "Bit", "CLIP", "DeiT", "MobileNetV1", "MobileNetV2", "MobileViT", "Siglip", "Beit", "Pvt"}
OWN_RESIZE = {"ConvNext", "Levit", "EfficientNet"}
# What a configuration may say of how attention is computed; anything else is a kernel, from a hub or a package.
ATTENTION = (None, "eager", "sdpa")
MOST_LABELS = 10**6  # transformers makes a name for each before anything else
SECONDS = 5  # that the hub has to answer
SAVED = "give the folder as save_pretrained wrote it"
# What would bring further code along: packages for quantised weights, classes put in the place of others.
OTHERS = ("quantization_config", "compression_config", "fusion_config", "kernel_config")
# Numbers of Pillow's filters, as configurations hold them.
FILTERS = {0: "nearest", 1: "lanczos", 2: "bilinear", 3: "bicubic", 4: "box", 5: "hamming"}


class Logits(nn.Module):
    """A transformers classifier that gives its logits as a tensor; `flip`: it takes blue, green, red; `words`: it is
    one of ours around theirs, and gives logits as they are."""

    def __init__(self, inner: nn.Module, flip: bool = False, words: bool = False) -> None:
        super().__init__()
        self.inner = inner
        self.flip, self.words = flip, words

    def forward(self, images: Tensor) -> Tensor:
        images = images.flip(1) if self.flip else images
        logits: Tensor = self.inner(images) if self.words else self.inner(pixel_values=images).logits
        return logits


def open_hf(place: str, asked: Callable[[], tuple[str, ...]], prompt: str | None = None) -> Opened:
    """`ORG/NAME` on the hub, or a folder with config.json, model.safetensors and preprocessor_config.json.

    asked, prompt: the classes that a network is asked about which compares an image with words, and the sentences.
    """
    transformers = optional("transformers", "transformers", f"hf:{place}")
    folder = Path(place).expanduser()
    local = folder.is_dir()
    if not local and (place.startswith((".", "/", "~")) or len(folder.parts) > 2 or "\\" in place):
        raise UserError(f"hf:{place}: there is no such folder; give one with config.json and model.safetensors")
    source = str(folder) if local else place
    hub = "" if local else _hub()
    silent = bool(hub) and not _answers(hub)  # then what was fetched before will do
    with _quiet(transformers), _offline() if local or silent else contextlib.nullcontext():
        try:
            if local:
                _ordinary(folder)
            said = transformers.PretrainedConfig.get_config_dict(source)[0]
            refuse_code(said, place)
            words = compares(transformers, said)
            kind = "ZeroShotImageClassification" if words else "ImageClassification"
            module, report = getattr(transformers, f"AutoModelFor{kind}").from_pretrained(
                source,
                trust_remote_code=False,
                weights_only=True,
                output_loading_info=True,
                ignore_mismatched_sizes=True,  # so that they are in the report, and the error is ours
            )
            config = module.config
            channels, outputs = int(getattr(config, "num_channels", 3) or 3), int(config.num_labels)
        except UserError:
            raise
        except Exception as error:
            raise UserError(_cannot(place, local, hub if silent else "", error)) from error
        _check(report, place)
        own = asked() if words else class_lists.names_in(getattr(config, "id2label", None))
        if words and own is not None:
            module = with_words(transformers, module, source, own, prompts_of(prompt, place), f"hf:{place}")
            outputs = len(own)
        elif prompt is not None:
            raise UserError(f"hf:{place} has its own classes and reads no words: leave prompt= away")
        how, why, flip = _processor(transformers, source, local)
    return Opened(
        folder.resolve().name if local else folder.name,
        Logits(module.float().eval(), flip, words),
        how,
        None if own is None else class_lists.checked(own, f"hf:{place}"),
        outputs,
        channels,
        None if how is None else how.size,
        why,
    )


def refuse_code(config: Any, place: str) -> None:
    """Refuse a configuration (config.json as it was read) that has code or further files brought from elsewhere, or
    that no memory holds."""
    parts = [config]
    while parts:
        part = parts.pop()
        parts += part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
        for key, value in part.items() if isinstance(part, dict) else ():
            if str(key).removesuffix("_internal").endswith(("attn_implementation", "experts_implementation")):
                given = list(value.values()) if isinstance(value, dict) else [value]
                if any(one not in ATTENTION for one in given):
                    raise UserError(
                        f"hf:{place}: its configuration asks for {key} {shown(value)[:100]}, a kernel that would be "
                        'downloaded and run: foible knows "eager" and "sdpa"; take that line out of its config.json'
                    )
            if type(value) is int and value > (MOST_LABELS if key == "num_labels" else 2**31):
                raise UserError(f"hf:{place}: its configuration has {shown(key)[:100]} {str(value)[:20]}: {SAVED}")
            if key in OTHERS and value:
                raise UserError(
                    f"hf:{place}: its configuration has {key}, which loads further code: give the plain network, not "
                    "quantised and not patched (model.dequantize(), then save_pretrained)"
                )


def _ordinary(folder: Path) -> None:
    """No pipes and no devices among its files, and no adapter, which names a base network on the hub."""
    for file in sorted(folder.iterdir()):
        if not file.is_dir() and file.suffix in (".json", ".safetensors", ".bin", ".txt", ".model"):
            ordinary(file)
        if file.name.endswith(".index.json"):  # names the files that hold the weights
            check(read_json(file, SAVED), {"weight_map": {str: PLAIN_NAME}}, str(file))
    if (folder / "adapter_config.json").exists():
        raise UserError(f"hf:{folder} holds an adapter: merge it into its base network, then save_pretrained")


def preprocess_of(processor: Any) -> tuple[Preprocess | None, str]:
    """What an image processor of transformers does, as ours; or None and why it cannot be said."""
    name = type(processor).__name__
    kind = name.removesuffix("Pil").removesuffix("Fast").removesuffix("ImageProcessor").removesuffix("FeatureExtractor")
    if kind not in PLAIN | OWN_RESIZE:
        return None, f"foible does not know what its {name} does"
    if not _has(processor, "do_resize"):
        return None, f"its {name} does not resize"
    size = _size(processor.size)
    crop: int | tuple[int, int] | None
    if kind == "ConvNext" and isinstance(size, int):
        if size < 384:
            size, crop = int(size / (processor.crop_pct or 224 / 256)), (size, size)
        else:
            crop = size = (size, size)
    else:
        size = int(256 / 224 * size) if kind == "Levit" and isinstance(size, int) else size
        crop = _size(processor.crop_size) if _has(processor, "do_center_crop") else size
    crop = crop if isinstance(crop, tuple) else None
    if crop is None or size is None:
        return None, f"its {name} has size {processor.size}, which gives images of no one size"
    filter_name = FILTERS.get(int(processor.resample if processor.resample is not None else 2), "")
    if filter_name not in INTERPOLATIONS:
        return None, f"its {name} has resample {processor.resample!r}"
    values = _normalisation(processor)
    return Preprocess(size=crop, resize=size, interpolation=filter_name, halves="down", **values), ""  # type: ignore[arg-type]


def _normalisation(processor: Any) -> dict[str, Any]:
    """mean and std for pixels in [0, 1], from rescaling and normalising as the processor has them."""
    ones = (1.0,) * 3
    scale = 255 * (float(processor.rescale_factor) if _has(processor, "do_rescale") else 1.0)
    given = [getattr(processor, key, None) for key in ("image_mean", "image_std")]
    mean, std = ((value,) * 3 if isinstance(value, int | float) else tuple(value or ()) for value in given)
    again = std if _has(processor, "include_top") and std else ones  # EfficientNet divides a second time
    if not _has(processor, "do_normalize"):
        mean, std = (0.0,) * 3, ones
    if _has(processor, "do_rescale") and _has(processor, "rescale_offset"):
        mean = tuple(value + 1 for value in mean)  # EfficientNet's other way: pixels in [-1, 1]
    std = tuple(one * two for one, two in zip(std, again, strict=True))
    return scaled(mean, std, scale, len(mean)) if (scale, mean, std) != (1.0, (0.0,) * 3, ones) else {}


def _has(processor: Any, key: str) -> bool:
    return bool(getattr(processor, key, False))


def _size(size: Any) -> int | tuple[int, int] | None:
    """{height, width} as a pair, {shortest_edge} as a number; None for anything else."""
    if isinstance(size, int):
        return size, size
    keys = ("height", "width", "shortest_edge", "longest_edge")
    height, width, shortest, longest = (
        size.get(key) if isinstance(size, dict) else getattr(size, key, None) for key in keys
    )
    if height and width:
        return int(height), int(width)
    return int(shortest) if shortest and not longest else None


def _processor(transformers: Any, source: str, local: bool) -> tuple[Preprocess | None, str, bool]:
    if local and not (Path(source) / "preprocessor_config.json").is_file():
        return None, "its folder has no preprocessor_config.json", False
    try:
        processor = transformers.AutoImageProcessor.from_pretrained(source, trust_remote_code=False)
    except Exception as error:
        return None, f"its image processor could not be read ({first_line(error)})", False
    try:
        how, why = preprocess_of(processor)
    except (UserError, TypeError, ValueError, ArithmeticError, AttributeError) as error:
        return None, f"its {type(processor).__name__} holds what it should not ({first_line(error)})", False
    return how, why, _has(processor, "do_flip_channel_order")


def _check(report: Any, place: str) -> None:
    """Every weight came from the file: transformers would make up the others, and say so in passing."""
    record = report if isinstance(report, dict) else vars(report)
    lacks, extra, other = (
        sorted(record.get(f"{kind}_keys") or (), key=str) for kind in ("missing", "unexpected", "mismatched")
    )
    found = [f"lacks {some(sorted(lacks))}"] if lacks else []
    found += [f"{key} has shape {tuple(given)}, the network has {tuple(wanted)}" for key, given, wanted in other[:3]]
    if found:
        found += [f"has unexpected {some(sorted(extra))}"] if extra else []
        raise UserError(f"hf:{place}: its file of weights {'; '.join(found)}: the weights are of another architecture")


def _cannot(place: str, local: bool, silent: str, error: Exception) -> str:
    """silent: the hub, where it did not answer."""
    if local:
        return (
            f"hf:{place} could not be opened ({first_line(error)}): expected a folder that save_pretrained wrote, with "
            "config.json of an image classifier and model.safetensors (or pytorch_model.bin)"
        )
    why = f"nothing answered at {silent} within {SECONDS} seconds" if silent else first_line(error)
    return (
        f"hf:{place} is no folder here, and could not be had from the hub ({why}): check the name; where there is no "
        f"connection, download config.json, preprocessor_config.json and model.safetensors from huggingface.co/{place} "
        "elsewhere, put them into one folder, and give hf:./FOLDER"
    )


def _hub() -> str:
    """Where the hub is; nothing where it is not to be asked."""
    constants: Any = importlib.import_module("huggingface_hub.constants")
    return "" if constants.HF_HUB_OFFLINE else str(constants.ENDPOINT)


def _answers(hub: str) -> bool:
    """Whether anything answers there soon, whatever it says: the library itself would ask six times and wait between,
    and looking up a name that nobody answers for knows no limit."""
    heard = []

    def ask() -> None:
        with contextlib.suppress(Exception):
            importlib.import_module("huggingface_hub").get_session().head(hub, timeout=SECONDS)
            heard.append(True)

    asking = threading.Thread(target=ask, name="foible-hub", daemon=True)
    asking.start()
    asking.join(SECONDS)
    return bool(heard)


@contextlib.contextmanager
def _offline() -> Iterator[None]:
    """Nothing comes from the hub meanwhile: a folder's configuration may name weights that are not in it."""
    constants: Any = importlib.import_module("huggingface_hub.constants")
    before = constants.HF_HUB_OFFLINE
    constants.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = before


@contextlib.contextmanager
def _quiet(transformers: Any) -> Iterator[None]:
    """Without progress bars and reports on weights: what matters in them becomes an error of ours."""
    logging = transformers.utils.logging
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity(100)  # not even errors: they repeat a file's words, control characters and all
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
