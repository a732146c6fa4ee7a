"""From a spec to a data set: the one table of what can be loaded."""

from __future__ import annotations

import sys
from collections.abc import Callable

from foible.data.catalogue import FORMS, KNOWN
from foible.data.cifar import load_cifar10
from foible.data.dataset import SPLITS, Dataset, shown
from foible.data.digits import load_digits
from foible.data.folder import load_folder
from foible.data.idx import load_idx
from foible.data.npz import load_npz
from foible.data.parquet import load_parquet
from foible.data.usps import load_usps
from foible.errors import UserError
from foible.specs import bind, did_you_mean, parse

LOADERS: dict[str, Callable[..., Dataset]] = {
    "digits": load_digits,
    "mnist": load_idx,
    "fashion-mnist": load_idx,
    "cifar10": load_cifar10,
    "usps": load_usps,
    "folder": load_folder,
    "parquet": load_parquet,
    "npz": load_npz,
}


def load(spec: str | Dataset, split: str = "train", *, quiet: bool = False) -> Dataset:
    """The data set that `spec` names, in memory; a `Dataset` is handed back as it is.

    `spec` is a name (`digits`, `mnist`, `fashion-mnist`, `cifar10`, `usps`) or a form with a path
    (`folder:PATH?size=64`, `parquet:PATH`, `npz:PATH`); `split` is "train" or "test". `quiet` shows no
    progress bar. What could not be read is listed in the result's `problems`.
    """
    if isinstance(spec, Dataset):
        return spec
    if split not in SPLITS:
        raise UserError(f"the split is {split!r}: expected 'train' or 'test'{did_you_mean(str(split), SPLITS)}")
    parsed = parse(spec)
    loader = LOADERS.get(parsed.name)
    if loader is None:
        raise _unknown(spec, parsed.name)
    if parsed.name in KNOWN and spec != parsed.name:
        raise UserError(
            f"{spec!r}: {parsed.name} takes no path and no options; "
            "set FOIBLE_DATA to the folder that it is to be looked for in"
        )
    data = loader(spec, parsed.argument, split, quiet, **bind(loader, parsed.options, spec))
    if data.problems and not quiet:
        _tell(data)
    return data


def _tell(data: Dataset, most: int = 10) -> None:
    """Say on standard error what was left out, so that nobody learns of it by counting."""
    lines = [f"{shown(data.name)} ({data.split}): {len(data.problems)} left out, {len(data)} read"]
    lines += [f"  {shown(problem)}" for problem in data.problems[:most]]
    if len(data.problems) > most:
        lines.append(f"  … and {len(data.problems) - most} more")
    print("\n".join(lines), file=sys.stderr)


def _unknown(spec: str, name: str) -> UserError:
    hint = did_you_mean(name.lower(), LOADERS)
    if not hint and any(mark in spec for mark in "/\\."):
        hint = f"; for a path write folder:{spec}, parquet:{spec} or npz:{spec}"
    return UserError(
        f"there is no data set called {spec!r}{hint}; known are {', '.join(KNOWN)}, and "
        f"{'; '.join(FORMS.values())}. `foible data` lists what is at hand"
    )
