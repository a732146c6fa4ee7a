"""A recipe's settings as command-line flags: the frozen dataclass is the one place where they are written."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import typer

from foible.errors import UserError

# Flags that several commands share.
OneBasket = Annotated[
    str | None,
    typer.Option("--basket", help="Basket (ensemble): a folder that `foible train` wrote.", show_default=False),
]
Networks = Annotated[
    list[str],
    typer.Option(
        "--network",
        # Words of at most 18 letters: in a narrow terminal longer ones would be cut.
        help="One network, [NAME=]SPEC; repeat. SPEC is a basket folder or BASKET/NETWORK, timm:NAME, "
        "torchvision:NAME, hf:FOLDER, onnx:FILE, a spec of `foible train`, or FILE.py:NAME, which runs your file; and "
        "after a ? what it does not say itself, joined by &: checkpoint=FILE, weights=FILE, classes=FILE, "
        "preprocess=inside, size=224 (docs/networks.md). Quote it.",
        show_default=False,
    ),
]
Data = Annotated[
    str | None,
    typer.Option(
        "--data",
        help="Data set: digits, mnist, folder:PATH, csv:FILE, … (see `foible data`). Default: what the basket was "
        "trained on; with --network it must be given.",
        show_default=False,
    ),
]
Device = Annotated[str, typer.Option(help="auto, cpu or cuda.")]
Trust = Annotated[
    bool,
    typer.Option(
        "--trust", help="Run code that files name (a probe's backbone), or hold: whole pickles, TorchScript, .pt2."
    ),
]


def listed(basket: str | None, networks: list[str]) -> str | list[str]:
    """What names the networks of a command: one of the two, or an error."""
    if bool(basket) == bool(networks):
        raise UserError("give the networks with --basket FOLDER, or with --network [NAME=]SPEC once per network")
    return basket or list(networks)


def flags(config: type) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add an option to a command for every field of `config`; the command receives them as `**settings`."""
    hints = get_type_hints(config)

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        own = [
            parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
            for parameter in inspect.signature(command, eval_str=True).parameters.values()
            if parameter.kind is not inspect.Parameter.VAR_KEYWORD
        ]
        added = []
        for field in dataclasses.fields(config):
            if not field.metadata.get("flag", True):
                continue
            kind, default = hints[field.name], field.default
            if get_origin(kind) is tuple:
                kind, default = list[get_args(kind)[0]], []  # type: ignore[misc]
            elif get_origin(kind) is Literal:
                kind = str
            option = typer.Option(help=field.metadata["help"])
            added.append(
                inspect.Parameter(
                    field.name,
                    inspect.Parameter.KEYWORD_ONLY,
                    default=default,
                    annotation=Annotated[kind, option],
                )
            )
        command.__signature__ = inspect.Signature([*own, *added])  # type: ignore[attr-defined]
        command.__annotations__ = {parameter.name: parameter.annotation for parameter in [*own, *added]}
        return command

    return add
