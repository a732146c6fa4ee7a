"""The data that a command takes where none is named: what its basket was trained on."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from foible.basket import Basket
from foible.errors import UserError
from foible.networks.files import FILE, read_record
from foible.permission import Permission
from foible.runs.reopen import data_of
from foible.text import cut, some

HOW = "name the images with --data DATA, such as digits, cifar10 or folder:PATH (`foible data` lists what is at hand)"


def own_data(basket: Basket | str | Path | Sequence[str], may: Permission, *, quiet: bool = False) -> str:
    """The one data set that all networks of a basket were trained on, by its record; otherwise an error."""
    where: str | Path = ""
    records: list[Any] = []
    if isinstance(basket, Basket):
        records = [basket.training.get(name, {}) for name in basket.names]
        where = basket.source[0] if basket.source and len(basket.source) == 1 else ""
    elif isinstance(basket, str | Path) and (Path(basket) / FILE).is_file():
        where = basket
        records = [one.get("training", {}) for one in read_record(Path(basket))["networks"]]
    named = {record.get("data") if isinstance(record, dict) else None for record in records}
    known = sorted(name for name in named if isinstance(name, str) and name)
    if not known:
        raise UserError(f"these networks do not say which data they are for: {HOW}")
    if len(known) > 1 or len(named) > 1:
        raise UserError(f"the basket's networks were not all trained on the same data ({some(known)}): {HOW}")
    spec = data_of(where, known[0], may, "basket") if where else known[0]
    if not quiet:
        print(f"Data: {cut(spec)}, which the basket was trained on", file=sys.stderr)
    return spec
