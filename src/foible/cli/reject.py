"""`foible reject`: a rule that refuses strange images, and what it refuses."""

from __future__ import annotations

import json as codec
from pathlib import Path
from typing import Annotated, Any

import typer

from foible.cli.flags import Device, Networks, OneBasket, Trust, listed

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="Refuse images that look strange to a network: fit a rule, and apply it (out-of-distribution detection).",
)
Json = Annotated[bool, typer.Option("--json", help="Print as JSON.")]
Split = Annotated[str, typer.Option(help="Which part of the data.")]


@app.command()
def fit(
    fooling: Annotated[
        str,
        typer.Argument(
            metavar="RUN|IMAGES", help="Fooling images: a run folder, or data such as folder:PATH.", show_default=False
        ),
    ],
    data: Annotated[
        str, typer.Option(help="Real images: digits, mnist, folder:PATH, … (see `foible data`).", show_default=False)
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The rule, a JSON file.", show_default=False)],
    basket: OneBasket = None,
    network: Networks = [],  # noqa: B006 (typer reads it, nobody changes it)
    suspect: Annotated[
        str | None, typer.Option(help="Which network is fooled (default: the run's).", show_default=False)
    ] = None,
    score: Annotated[
        str, typer.Option(help="max-softmax, entropy, energy, disagreement; auto takes the one that tells most.")
    ] = "auto",
    cost: Annotated[float, typer.Option(help="Percent of real images that the rule may refuse.")] = 5.0,
    split: Split = "test",
    images: Annotated[int, typer.Option(min=1, help="Most real images that are judged.")] = 10_000,
    seed: Annotated[int, typer.Option(help="Seed of which images fit the rule and which test it.")] = 0,
    device: Device = "auto",
    trust: Trust = False,
    json: Json = False,
) -> None:
    """Fit a rule that tells fooling images from real ones, and say what it costs.

    Half of the real images set the threshold, the other half say how many real
    images it refuses. The file holds the score, its formula, the threshold,
    both shares with 95 % intervals, and the hashes of the networks. Where no
    score is better than chance, that is said, and nothing is written.

    Example: foible reject fit runs/fool --basket B --data digits --out rule.json
    """
    from foible.rejection.fitting import fit_rejection

    rule = fit_rejection(
        fooling, data, listed(basket, network), score=score, cost=cost / 100, suspect=suspect, split=split,
        images=images, seed=seed, device=device, trust=trust, out=out, quiet=json,
    ).to_json()  # fmt: skip
    if json:
        print(codec.dumps(rule | {"out": str(out)}, ensure_ascii=False))
        return
    _print_scores(rule)
    print(f"Refuse an image where {rule['score']} is above {rule['threshold']:.4g}.")
    print(f"  real images refused:    {_share(rule['cost'])}")
    print(f"  fooling images refused: {_share(rule['caught'])}")
    print(f"Rule: {out}")


@app.command()
def apply(
    rule: Annotated[Path, typer.Argument(help="A rule that `foible reject fit` wrote.", show_default=False)],
    data: Annotated[str, typer.Option(help="Images: data (see `foible data`), or a run folder.", show_default=False)],
    basket: OneBasket = None,
    network: Networks = [],  # noqa: B006 (typer reads it, nobody changes it)
    split: Split = "test",
    device: Device = "auto",
    trust: Trust = False,
    json: Json = False,
) -> None:
    """Say which images a rule refuses.

    The networks must be those that the rule was fitted to: they are known by
    the hashes of their weights, whatever they are called.

    Example: foible reject apply rule.json --basket B --data folder:photos
    """
    from foible.rejection.fitting import reject
    from foible.text import shown

    networks = listed(basket, network)
    told = reject(rule, data, networks, split=split, device=device, trust=trust, quiet=json).to_json()
    if json:
        print(codec.dumps(told, ensure_ascii=False))
        return
    print(f"{shown(told['suspect'])}: {told['score']} above {told['threshold']:.4g} is refused.")
    print(f"  refused of these images:    {_share(told['refused'])}")
    print(f"  of real ones, when fitted:  {_share(told['expected'])}")
    for one in told["images"][:10]:
        print(f"  {shown(one['name'] or '#' + str(one['index']))}  {one['score']:.4g}")
    if len(told["images"]) > 10:
        print(f"  … and {len(told['images']) - 10:,} more (--json has all)")


def _share(one: dict[str, Any]) -> str:
    share, low, high = (f"{100 * one[name]:.1f}" for name in ("share", "low", "high"))
    return f"{share} % ({low} to {high}), {one['count']:,} of {one['n']:,}"


def _print_scores(rule: dict[str, Any]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    title = "Told apart, on images that did not fit the rule"
    table = Table(title=title, title_justify="left", box=box.SIMPLE)
    table.add_column("score")
    for name in ("AUROC", "95 % interval", "fooling pass at 95 % of real, %", "95 % interval"):
        table.add_column(name, justify="right")
    for one in rule["scores"]:
        table.add_row(
            one["score"], f"{one['auroc']:.3f}", f"{one['low']:.3f} to {one['high']:.3f}",
            f"{100 * one['passes']:.1f}", f"{100 * one['passes_low']:.1f} to {100 * one['passes_high']:.1f}",
        )  # fmt: skip
    Console().print(table)
