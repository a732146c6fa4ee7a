"""Cite: BibTeX of the methods that made a run and of Foible, with the hash of the run's settings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import foible
from foible.errors import UserError
from foible.findings import Findings, read_shard, shard_files
from foible.records import TEXT, check, parse_json
from foible.runs.folder import RunFolder
from foible.runs.recipe import load, recipe_of
from foible.text import shown

TITLE = "Foible: finding the weak parts of image classifiers"  # as in CITATION.cff
REFERENCES: dict[str, tuple[str, dict[str, str]]] = {
    "baluja2015virtues": (
        "inproceedings",
        {
            "title": "The Virtues of Peer Pressure: A Simple Method for Discovering High-Value Mistakes",
            "author": "Baluja, Shumeet and Covell, Michele and Sukthankar, Rahul",
            "booktitle": "Computer Analysis of Images and Patterns (CAIP)",
            "year": "2015",
        },
    ),
    "anonymous2018explaining": (
        "unpublished",
        {
            "title": "Explaining the Mistakes of Neural Networks Using Latent Sympathetic Examples",
            "author": "{Anonymous authors}",
            "note": "Under review as a conference paper at ICLR 2018",
            "year": "2018",
        },
    ),
    "nguyen2015deep": (
        "inproceedings",
        {
            "title": "Deep Neural Networks are Easily Fooled: High Confidence Predictions for Unrecognizable Images",
            "author": "Nguyen, Anh and Yosinski, Jason and Clune, Jeff",
            "booktitle": "IEEE Conference on Computer Vision and Pattern Recognition",
            "year": "2015",
        },
    ),
    "vlaar2021examining": (
        "inproceedings",
        {
            "title": "Examining neural network behavior at the classification boundary",
            "author": "Vlaar, Tiffany",
            "booktitle": "I (Still) Can't Believe It's Not Better, NeurIPS 2021 Workshop",
            "year": "2021",
        },
    ),
    "szegedy2014intriguing": (
        "inproceedings",
        {
            "title": "Intriguing properties of neural networks",
            "author": "Szegedy, Christian and Zaremba, Wojciech and Sutskever, Ilya and Bruna, Joan and "
            "Erhan, Dumitru and Goodfellow, Ian and Fergus, Rob",
            "booktitle": "International Conference on Learning Representations (ICLR)",
            "year": "2014",
        },
    ),
    "yan2021positive": (
        "inproceedings",
        {
            "title": "Positive-Congruent Training: Towards Regression-Free Model Updates",
            "author": "Yan, Sijie and Xiong, Yuanjun and Kundu, Kaustav and Yang, Shuo and Deng, Siqi and Wang, Meng "
            "and Xia, Wei and Soatto, Stefano",
            "booktitle": "IEEE/CVF Conference on Computer Vision and Pattern Recognition (CVPR)",
            "pages": "14299--14308",
            "year": "2021",
        },
    ),
    "mcnemar1947note": (
        "article",
        {
            "title": "Note on the sampling error of the difference between correlated proportions or percentages",
            "author": "McNemar, Quinn",
            "journal": "Psychometrika",
            "volume": "12",
            "number": "2",
            "pages": "153--157",
            "year": "1947",
        },
    ),
    "tango1998equivalence": (
        "article",
        {
            "title": "Equivalence test and confidence interval for the difference in proportions for the "
            "paired-sample design",
            "author": "Tango, Toshiro",
            "journal": "Statistics in Medicine",
            "volume": "17",
            "number": "8",
            "pages": "891--908",
            "year": "1998",
        },
    ),
    "wilson1927probable": (
        "article",
        {
            "title": "Probable inference, the law of succession, and statistical inference",
            "author": "Wilson, Edwin B.",
            "journal": "Journal of the American Statistical Association",
            "volume": "22",
            "number": "158",
            "pages": "209--212",
            "year": "1927",
        },
    ),
}
_PARTS = ("recipe", "space", "objective", "search", "data", "split", "seed")


@dataclass(frozen=True)
class Cited:
    """`configs`: settings by hash; `versions`: what made the rows; `keys`: of REFERENCES, in order."""

    configs: dict[str, dict[str, Any]]
    versions: tuple[dict[str, str], ...]
    keys: tuple[str, ...]

    @property
    def bibtex(self) -> str:
        """What BibTeX reads, after lines that it passes over."""
        notes = [f"% settings {_note(key)}: {_settings(settings)}" for key, settings in self.configs.items()]
        made = [f"% made with {', '.join(f'{_note(k)} {_note(v)}' for k, v in one.items())}" for one in self.versions]
        entries = [_entry(key, *REFERENCES[key]) for key in self.keys]
        return "\n".join([*notes, *made, "", *entries, _entry("foible", "software", self._software())])

    def _software(self) -> dict[str, str]:
        versions = {one["foible"] for one in self.versions if one.get("foible")} or {foible.__version__}
        return {
            "title": TITLE,
            "author": "{The Foible developers}",
            "version": ", ".join(map(_field, sorted(versions))),
            "note": f"settings {', '.join(map(_field, self.configs))}",
        }

    def to_json(self) -> dict[str, Any]:
        cited = [{"key": key, "type": REFERENCES[key][0], **REFERENCES[key][1]} for key in self.keys]
        return {
            "configs": list(self.configs),
            "versions": list(self.versions),
            "references": cited,
            "bibtex": self.bibtex,
        }


def cite(run: str | Path | Findings) -> Cited:
    """What to cite for a run folder, a Parquet file of findings, or findings in memory."""
    configs: dict[str, dict[str, Any]] = {}
    made: dict[str | None, None] = {}
    for settings, versions in _parts(run):
        configs |= settings
        made |= dict.fromkeys(versions)
    keys = dict.fromkeys(key for settings in configs.values() for key in papers_of(settings))
    return Cited(configs, tuple(filter(None, map(_versions, made))), tuple(keys))


def papers_of(settings: dict[str, Any]) -> tuple[str, ...]:
    """What the recipe with these settings stands on; nothing where we do not know it."""
    recipe = recipe_of(settings)
    papers = () if recipe is None else recipe.papers
    return papers if isinstance(papers, tuple) else tuple(load(papers)(settings))


def _parts(run: str | Path | Findings) -> Iterator[tuple[dict[str, dict[str, Any]], list[str | None]]]:
    """The settings by hash and the versions, shard by shard."""
    if isinstance(run, Findings):
        yield run.configs, run.column("versions")
    elif (Path(run) / "config.json").is_file() and not any((Path(run) / "shards").glob("*.parquet")):
        config = RunFolder(run).config  # nothing is finished yet: the settings are all there is
        yield {config["hash"]: config["settings"]}, []
    else:
        for file in shard_files(run):
            part = Findings(read_shard(file, ["versions"]))
            yield part.configs, part.column("versions")


def _versions(text: str | None) -> dict[str, str]:
    try:
        return dict(check(parse_json(text or "{}", "versions"), {str: TEXT}, "versions"))
    except UserError:
        return {}


def _settings(settings: dict[str, Any]) -> str:
    return ", ".join(f"{name} {_note(settings[name])}" for name in _PARTS if settings.get(name) is not None)


def _note(value: object) -> str:
    """Text of a run, which may be anybody's, as BibTeX passes over it: no entry, no brace, no line of its own."""
    return shown(value).replace("@", "(at)").replace("{", "(").replace("}", ")")


def _field(text: str) -> str:
    """Text of a run inside an entry, where LaTeX will read it."""
    return re.sub(r"[^A-Za-z0-9 .+-]", "", text)


def _entry(key: str, kind: str, fields: dict[str, str]) -> str:
    lines = "".join(f"  {name} = {{{value}}},\n" for name, value in fields.items())
    return f"@{kind}{{{key},\n{lines}}}\n"
