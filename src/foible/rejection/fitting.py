"""Fit a rule to real images and fooling ones, and see what it refuses."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from foible.basket import Basket
from foible.basket.judging import judged
from foible.basket.matching import match, shape_of
from foible.data import Dataset, Photographs, open_data
from foible.errors import UserError
from foible.findings import Findings
from foible.findings.rows import versions
from foible.networks.load.specs import same_network
from foible.progress import progress
from foible.randomness import uniforms
from foible.rejection.rule import Rule, Share, as_rows, read_rule
from foible.rejection.scores import DISAGREEMENT, SCORES, Told, check, limit_for, strangeness, told_apart
from foible.text import did_you_mean, some

COST = 0.05  # of real images that a rule may refuse, unless told otherwise
LEAST_REAL, LEAST_FOOLING = 20, 5  # images in each half: fewer tell nothing
Source = str | Path | Findings | Dataset | Photographs
Networks = str | Path | Sequence[str] | Basket
Opened = Findings | Dataset | Photographs


@dataclass(frozen=True, eq=False)
class Refused:
    """What a rule says of n images. places: (n,) where they stand in their data, or among a run's found images; names:
    files or ids, where there are any. score, refused: (n,)."""

    rule: Rule
    places: Tensor
    names: tuple[str, ...]
    score: Tensor
    refused: Tensor

    def to_json(self) -> dict[str, Any]:
        """The counts, and every image that is refused, the strangest first."""
        order = torch.where(self.refused, self.score, -torch.inf).argsort(descending=True, stable=True)
        listed = [
            {"index": int(self.places[row]), "name": self.names[row] if self.names else None,
             "score": float(self.score[row])}
            for row in order[: int(self.refused.sum())].tolist()
        ]  # fmt: skip
        return {
            "score": self.rule.score, "threshold": self.rule.threshold, "suspect": self.rule.suspect,
            "refused": Share(len(listed), len(self.score)).to_json(), "expected": self.rule.cost.to_json(),
            "images": listed,
        }  # fmt: skip


def fit_rejection(
    fooling: Source,
    data: str | Dataset | Photographs,
    networks: Networks,
    *,
    score: str = "auto",
    cost: float = COST,
    suspect: str | None = None,
    split: str = "test",
    images: int = 10_000,
    seed: int = 0,
    device: str = "auto",
    trust: bool = False,
    out: str | Path | None = None,
    quiet: bool = False,
) -> Rule:
    """A rule that tells fooling images from those of `data`, and refuses at most about `cost` of the latter.

    fooling: a run folder or findings (its found images), or a data set of fooling images.
    networks: a basket; of several networks `suspect` is the one that is fooled (default: the run's own).
    score: one of `max-softmax`, `entropy`, `energy` and `disagreement`, which takes several networks; "auto" takes the
        one that tells most apart, and refuses where none is better than chance.
    images: most real images that are judged, drawn by `seed`. One half of them fits the threshold, the other says what
        it costs; likewise, with "auto", one half of the fooling ones chooses the score.
    out: write the rule here as JSON.
    """
    if not 0 < cost < 1:
        raise UserError(f"cost is {cost}: expected a share of real images above 0 and below 1, such as 0.05")
    if score not in ("auto", *SCORES):
        raise UserError(f"score is {score!r}{did_you_mean(score, SCORES)}: expected auto, {', '.join(SCORES)}")
    known, fools = (open_source(one, split, quiet) for one in (data, fooling))
    basket = suspect_first(_opened(networks, known, device, trust), suspect, fools)
    if score == DISAGREEMENT and len(basket) < 2:
        raise UserError("disagreement takes several networks: give a basket of at least two, or another score")
    real, fooled = (judge_source(basket, one, images, seed, quiet)[2] for one in (known, fools))
    halves = []
    for logits, what, least in ((real, "real", LEAST_REAL), (fooled, "fooling", LEAST_FOOLING)):
        if logits.shape[1] < 2 * least:
            raise UserError(f"{logits.shape[1]} {what} images are too few to fit a rule: give at least {2 * least}")
        check(logits, what, basket.names)
        halves.append(_halves(logits, seed, what))
    (fit, test), (chooses, caught) = halves
    if score == "auto":
        score = _best(told_apart(fit, chooses))
    else:
        caught = fooled  # nothing was chosen by them
    names = basket.names if score == DISAGREEMENT else basket.names[:1]
    threshold = limit_for(strangeness(fit)[score], 1 - cost)
    cost_of, caught_of = (_refused(logits, score, threshold) for logits in (test, caught))
    fitted = {
        "cost": cost, "data": _named(data), "split": split, "real": fit.shape[1],
        "fooling": _named(fooling), "fooling_images": fooled.shape[1], "seed": seed,
    }  # fmt: skip
    rule = Rule(
        score, threshold, {name: basket.fingerprints[name] for name in names}, tuple(basket.classes), cost_of,
        caught_of, fitted, as_rows(told_apart(test, caught)), json.loads(versions(basket.device)),
    )  # fmt: skip
    if out is not None:
        rule.save(out)
    return rule


def reject(
    rule: Rule | str | Path,
    data: Source,
    networks: Networks,
    *,
    split: str = "test",
    device: str = "auto",
    trust: bool = False,
    quiet: bool = False,
) -> Refused:
    """What a rule (or the file it is in) refuses of a data set, or of what a run found.

    networks: those that the rule was fitted to, under whatever names; others are refused.
    """
    rule = rule if isinstance(rule, Rule) else read_rule(rule)
    given = open_source(data, split, quiet)
    basket = _opened(networks, given, device, trust)
    names = []
    for name, sha in rule.networks.items():
        same = [one for one, now in basket.fingerprints.items() if same_network(sha, now)]
        if not same:
            raise UserError(
                f"the rule was fitted to another network: {name!r} has the weights {sha[:12]}…, and "
                f"{some(basket.names)} have others; give that one, or fit a rule anew with `foible reject fit`"
            )
        names.append(same[0])
    if tuple(basket.classes) != rule.classes:
        raise UserError(
            f"the rule was fitted to {len(rule.classes)} classes ({some(rule.classes)}), and these networks speak of "
            f"{len(basket.classes)} ({some(basket.classes)}): give the same networks as then"
        )
    basket = basket.only(names)
    places, told, logits = judge_source(basket, given, None, 0, quiet)
    check(logits, "given", basket.names)
    score = strangeness(logits)[rule.score]
    return Refused(rule, places, told, score, score > rule.threshold)


def _refused(logits: Tensor, score: str, threshold: float) -> Share:
    return Share(int((strangeness(logits)[score] > threshold).sum()), logits.shape[1])


def _best(told: tuple[Told, ...]) -> str:
    best = max(told, key=lambda one: one.auroc)
    if best.low <= 0.5:
        areas = ", ".join(f"{one.score} {one.auroc:.2f} ({one.low:.2f} to {one.high:.2f})" for one in told)
        more = "" if any(one.score == DISAGREEMENT for one in told) else " Several networks have a fourth score."
        raise UserError(
            f"no score tells fooling images from real ones better than chance: AUROC of {areas}.{more} A rule of one "
            "of them can be had with --score"
        )
    return best.score


def open_source(source: Source, split: str, quiet: bool) -> Opened:
    """The found rows of a run, or data."""
    if isinstance(source, str | Path) and _is_run(Path(source)):
        source = Findings.open(source)
    if not isinstance(source, Findings):
        data = str(source) if isinstance(source, Path) else source
        try:  # classes, where there are any, are for networks that take theirs from the data
            return open_data(data, split, whole=True, quiet=quiet)
        except UserError:
            return open_data(data, split, labelled=False, whole=True, quiet=quiet)
    kept = source.filter(outcome="found").table
    kept = kept.filter(kept.column("image").is_valid())
    if not kept.num_rows:
        raise UserError(f"the run has no found image among {len(source)} rows: there is nothing to tell apart")
    return Findings(kept)


def _is_run(path: Path) -> bool:
    try:
        if path.is_dir():
            if any((path / name).exists() for name in ("config.json", "shards", "suite.parquet")):
                return True
            raise UserError(f"{str(path)!r} is no run: give a run folder, or its images as folder:{path}")
        return path.suffix == ".parquet" and path.is_file()
    except OSError:  # a spec that no file could be called
        return False


def _named(source: Source) -> str:
    return str(source) if isinstance(source, str | Path) else getattr(source, "name", "findings in memory")


def _opened(networks: Networks, data: Opened, device: str, trust: bool) -> Basket:
    if isinstance(networks, Basket):
        return networks
    shape = None if isinstance(data, Findings) else shape_of(data)
    return Basket.open(networks, device=device, classes=data.classes or None, shape=shape, trust=trust)


def suspect_first(basket: Basket, suspect: str | None, fools: Opened) -> Basket:
    """The same networks, the one that is fooled before its peers."""
    if suspect is None:
        hunted = sorted({*fools.column("suspect")}) if isinstance(fools, Findings) else list(basket.names)
        those = [name for name in hunted if name in basket.names]
        if len(those) != 1:
            told = f"; the run has {some(hunted)}" if isinstance(fools, Findings) else ""
            raise UserError(f"which network is fooled? Give one of {some(basket.names)} as --suspect{told}")
        [suspect] = those
    return basket.only([suspect, *basket.peers(suspect)])


def judge_source(
    basket: Basket, source: Opened, most: int | None, seed: int, quiet: bool
) -> tuple[Tensor, tuple[str, ...], Tensor]:
    """Where images stand (n,), their names, and logits (networks, n, classes); of a data set at most so many, drawn by
    the seed."""
    if isinstance(source, Findings):
        return _judged_findings(basket, source)
    matched = match(source, basket, labelled=False)
    index = matched.index
    if most is not None and most < len(index):
        index = index[_order(len(index), seed, "reject.images")[:most]].sort().values
    seen, logits = [], []
    with progress("Judging", len(index), quiet=quiet) as bar:
        for part in judged(basket, matched.data, index=index, canvas=matched.canvas):
            seen.append(part.index)
            logits.append(part.logits)
            bar.advance(len(part.index) + len(part.problems))
    places = torch.cat(seen)
    files = matched.data.files
    return places, tuple(files[place] for place in places.tolist()) if files else (), torch.cat(logits, 1)


def _judged_findings(basket: Basket, found: Findings) -> tuple[Tensor, tuple[str, ...], Tensor]:
    if basket.names[0] in {*found.column("suspect")}:  # what fools others is another matter
        found = found.filter(suspect=basket.names[0])
    images = found.images()
    logits = torch.empty(len(basket), len(images), len(basket.classes))
    for shape in {tuple(image.shape) for image in images}:
        rows = [row for row, image in enumerate(images) if image.shape == shape]
        logits[:, rows] = basket.predict(torch.stack([images[row] for row in rows]))
    return torch.arange(len(images)), tuple(found.column("id")), logits


def _order(n: int, seed: int, stream: str) -> Tensor:
    """(n,) a permutation that is a function of the seed."""
    return uniforms(seed, torch.arange(n), stream=stream, count=1)[:, 0].argsort(stable=True)


def _halves(logits: Tensor, seed: int, what: str) -> tuple[Tensor, Tensor]:
    first, second = _order(logits.shape[1], seed, f"reject.{what}").tensor_split(2)
    return logits[:, first], logits[:, second]
