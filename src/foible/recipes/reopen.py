"""The networks and the data of a run on disk, as they meet again to be judged."""

from __future__ import annotations

from pathlib import Path

from foible.basket import Basket
from foible.data import open_data
from foible.errors import UserError
from foible.meeting import Meeting, meet
from foible.recipes.hunt import check_networks, shape_of
from foible.recipes.parts import refuse_code
from foible.runs import RunFolder


def reopen(
    run: str | Path, *, has_labels: bool, labelled: bool, basket: Basket | None = None, trust: bool = False
) -> tuple[Basket, Meeting]:
    """Refuses networks that have changed. has_labels: the data is read with its labels; labelled: they are used."""
    config = RunFolder(run).config
    settings, where = config["settings"], config["where"]
    data = open_data(where["data"], settings["split"], labelled=has_labels, quiet=True)
    if basket is None:
        if not where["basket"]:
            raise UserError(f"the run {str(run)!r} was made with networks in memory: give them with --basket")
        if not trust:
            refuse_code(run, where["basket"])
        basket = Basket.open(
            where["basket"], device=where["device"], classes=data.classes or None, shape=shape_of(data),
            trust=trust and where["trust"],
        )  # fmt: skip
    check_networks(run, settings, basket)
    return basket, meet(data, basket, canvas=settings["canvas_given"], labelled=labelled)
