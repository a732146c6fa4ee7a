"""The settings of each recipe: a frozen dataclass that is the Python keywords, the command's flags and config.json.

Nothing heavy is imported here, so that `foible --help` answers at once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from foible.errors import UserError
from foible.text import did_you_mean

MOST_CHILDREN = 100_000  # in one generation


def _help(default: Any, text: str) -> Any:
    return field(default=default, metadata={"help": text})


@dataclass(frozen=True)
class HuntConfig:
    """The settings of a hunt: the keywords of `foible.hunt`, the flags of `foible hunt`, and `config.json`."""

    suspect: tuple[str, ...] = _help((), "Network under test; repeat for several. Default: each network in turn.")
    peers: tuple[str, ...] = _help((), "Peers of every suspect; repeat for several. Default: all other networks.")
    trials: int = _help(1000, "Trials (seed images tried) for each suspect.")
    seed: int = _help(0, "Seed of every random draw; the same seed gives the same findings.")
    split: str = _help("train", "Which part of the data seed images come from.")
    canvas: str | None = _help(None, "Pixels that moves act on: 224 or 320x240. Default: the largest network input.")
    space: str = _help(
        "affine",
        "Where to search: a name with options (affine?degrees=5), a chain (photometric+affine), or FILE.py:NAME.",
    )
    objective: str = _help("dissent", "What counts as found: a name with options, or FILE.py:NAME.")
    search: str = _help("hill-climb", "How to search: a name with options (hill-climb?patience=250), or FILE.py:NAME.")
    most: str | None = _help(
        None, 'Bounds on the whole change, where affine is in the space: "15°, 15 %, 10 % shift". Default: none.'
    )
    peer_confidence: float | None = _help(
        None,
        "Least probability that every peer must give the class; 0: it need only prefer it. Default: 0.5 for up to ten "
        "classes, 0.1 less for each tenfold, at least 0.25.",
    )
    suspect_confidence: float | None = _help(None, "Least probability of the suspect's wrong answer (default: 0).")
    patience: int | None = _help(None, "Candidates in a row without improvement before a trial ends (default: 250).")
    budget: int | None = _help(None, "Most inferences for one trial, over all networks (default: no limit).")
    precision: str = _help(
        "float32", "float32, or bf16 to search faster on a GPU; findings are always judged in float32."
    )
    unlabelled: bool = _help(False, "The data has no labels: the class that all networks give a seed stands in.")
    atlas: bool = _help(False, "Look for different mistakes: the best of each class, answer, kind and size of move.")
    shrink: bool = _help(True, "Shrink every find to the least change that still holds.")
    realism: str = _help("patches", "How typical a find looks: patches, network:SPEC (not of the basket), or none.")
    judge_all: bool = _help(
        False, "Judge every image of the split first, to tell each network's accuracy on all of them."
    )
    unit: int | None = _help(
        None, "Trials in one unit of work, which is one shard on disk (default: what takes half a minute)."
    )

    def __post_init__(self) -> None:
        for name in ("suspect", "peers"):
            given = getattr(self, name)
            object.__setattr__(self, name, (given,) if isinstance(given, str) else tuple(given))
            if len(set(getattr(self, name))) != len(getattr(self, name)):
                raise UserError(f"{name}: a network is given twice: {', '.join(getattr(self, name))}")
        both = sorted(set(self.suspect) & set(self.peers))
        if both:
            raise UserError(f"{', '.join(both)} cannot be both suspect and peer: leave one of them out")
        for name in ("trials", "patience", "budget", "unit"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise UserError(f"{name} is {value}: expected at least 1")
        if self.precision not in ("float32", "bf16"):
            raise UserError(f"precision is {self.precision!r}: expected float32 or bf16")


@dataclass(frozen=True)
class CompareConfig:
    """The settings of a comparison: the keywords of `foible.compare`, the flags of `foible compare`."""

    old: str | None = _help(None, "The old version. Default: the first network.")
    new: str | None = _help(None, "The new version. Default: the last network.")
    split: str = _help("test", "Which part of the data is judged.")
    unlabelled: bool = _help(False, "The data has no labels: the networks' consensus stands in for the truth.")
    canvas: str | None = _help(None, "Pixels that findings are kept with: 224 or 320x240. Default: the largest input.")
    unit: int | None = _help(
        None, "Images in one unit of work, which is one shard on disk (default: what takes half a minute)."
    )

    def __post_init__(self) -> None:
        if self.unit is not None and self.unit < 1:
            raise UserError(f"unit is {self.unit}: expected at least 1")


@dataclass(frozen=True)
class RankConfig:
    """The settings of a ranking: the keywords of `foible.rank`, the flags of `foible rank`."""

    suspect: tuple[str, ...] = _help((), "Network under test; repeat for several. Default: each network in turn.")
    peers: tuple[str, ...] = _help((), "Peers of every suspect; repeat for several. Default: all other networks.")
    top: int = _help(1000, "Most images to keep for each suspect, those with the clearest dissent.")
    label: str = _help("consensus", "Where labels come from: consensus (the peers'), or people (none is claimed).")
    labelled: bool = _help(False, "The pool has labels: kept beside the consensus, to say how often that is right.")
    split: str = _help("train", "Which part of the data is ranked, where it has parts.")
    canvas: str | None = _help(None, "Pixels that findings are kept with: 224 or 320x240. Default: the largest input.")
    peer_confidence: float = _help(0.0, "Least probability that every peer must give the class.")
    suspect_confidence: float = _help(0.0, "Least probability of the suspect's other answer.")
    realism: str = _help("patches", "How typical an image of the pool looks: patches, network:SPEC, or none.")
    unit: int | None = _help(
        None, "Images in one unit of work, which is one shard on disk (default: what takes half a minute)."
    )

    def __post_init__(self) -> None:
        for name in ("suspect", "peers"):
            given = getattr(self, name)
            object.__setattr__(self, name, (given,) if isinstance(given, str) else tuple(given))
        both = sorted(set(self.suspect) & set(self.peers))
        if both:
            raise UserError(f"{', '.join(both)} cannot be both suspect and peer: leave one of them out")
        for name in ("top", "unit"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise UserError(f"{name} is {value}: expected at least 1")
        if self.label not in ("consensus", "people"):
            raise UserError(f"label is {self.label!r}: expected consensus or people")


@dataclass(frozen=True)
class ExplainConfig:
    """The settings of `foible.explain` and `foible explain`: what would have mended a mistake."""

    generator: str = _help(
        "", "What draws the changes: a folder that `foible generator train` wrote, FILE.py:NAME, or hf:FOLDER."
    )
    suspect: str | None = _help(None, "The network whose mistakes are explained. Default: the first of the basket.")
    to: str = _help(
        "truth",
        "The class to be given: truth (mistakes are mended); or, of images that are right, a class, each other one "
        "(latent adversarial examples), or runner-up, the one that comes second.",
    )
    images: int = _help(100, "Most images, drawn from those that the network gets wrong (with another --to, right).")
    control: int = _help(
        200, "Right images, at most as many as mistakes, that are driven to their runner-up to compare with; 0: none."
    )
    rate: float = _help(0.1, "Step of the descent, in units of the code (paper: 0.1).")
    steps: int = _help(1000, "Most steps from each start.")
    restarts: int = _help(0, "Further starts around an image whose descent came to nothing.")
    momentum: float = _help(0.0, "Share of the last step that the next one keeps.")
    effort: int = _help(150, "Gradients spent on the smallest change for each; 0: only the first is kept.")
    split: str = _help("test", "Which part of the data images come from.")
    seed: int = _help(0, "Seed of every random draw; the same seed gives the same findings.")
    space: str = _help("latent?step=1&reach=8", "Where to search; the generator is added to it.")
    objective: str = _help("restore", "What counts as mended: a name with options, or FILE.py:NAME.")
    search: str = _help("descend", "How to search; rate, steps, restarts and momentum are added to descend.")
    canvas: str | None = _help(None, "Pixels that changes act on: 64 or 320x240. Default: the generator's images.")
    judge_all: bool = _help(False, "Judge every image of the split first, to tell each network's accuracy on all.")
    unlabelled: bool = field(default=False, metadata={"help": "", "flag": False})

    def __post_init__(self) -> None:
        for name in ("images", "steps"):
            if getattr(self, name) < 1:
                raise UserError(f"{name} is {getattr(self, name)}: expected at least 1")
        for name in ("effort", "control"):
            if getattr(self, name) < 0:
                raise UserError(f"{name} is {getattr(self, name)}: expected at least 0")


@dataclass(frozen=True)
class DistortConfig:
    """The settings of `foible.distort` and `foible distort`: the smallest change that changes a network's answer."""

    source: str | None = _help(None, "The network to distort for. Default: the only one of the basket.")
    target: str = _help(
        "best",
        "What it is to say: best (the nearest other label), worst, random, next (label + 1), each (a row per label), "
        "any (no label is asked for), or a class.",
    )
    method: str = _help(
        "closest",
        "How to search: closest, fmn, apgd, lbfgs (the paper's), with options; or FILE.py:NAME. With commas, several: "
        "the nearest is kept.",
    )
    norm: str = _help("l2", "What is kept small: l2, or linf (the largest change of any pixel).")
    layer: str | None = _help(None, "Distort the output of this layer instead of the image (`foible inspect`).")
    images: int = _help(100, "Most images, drawn from those that the network gets right.")
    places: tuple[int, ...] = _help(
        (), "In place of a draw: these images, by their position in the split, from 0; repeat for several."
    )
    split: str = _help("test", "Which part of the data images come from.")
    seed: int = _help(0, "Seed of every random draw; the same seed gives the same findings.")
    likeliest: int | None = _help(
        None, "With best, worst and each: only so many other labels, those likeliest to the network (default: all)."
    )
    wrong: bool = _help(False, "Draw from all images: those that are wrong already count as distance 0.")
    lattice: bool = _help(True, "Look for the smallest change that 8 bits can hold; without, round and see.")
    floats: bool = _help(False, "Keep the exact floats of large images too; those of up to 12,288 values always are.")
    budget: int | None = _help(
        None,
        "Most forward and most backward passes for one image and label; its search on 8 bits may spend as many again.",
    )
    unlabelled: bool = _help(False, "The data has no labels: what the network says of an image stands in.")
    canvas: str | None = _help(None, "Pixels that are distorted: 224 or 320x240. Default: the network's input.")
    judge_all: bool = _help(
        False, "Judge every image of the split first, to tell each network's accuracy on all of them."
    )
    unit: int | None = _help(
        None, "Images in one unit of work, which is one shard on disk (default: what takes half a minute)."
    )

    def __post_init__(self) -> None:
        for name in ("images", "likeliest", "budget", "unit"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise UserError(f"{name} is {value}: expected at least 1")
        object.__setattr__(self, "places", tuple(self.places))
        if len(set(self.places)) < len(self.places):
            raise UserError("places: an image is given twice")
        if self.places:
            object.__setattr__(self, "images", len(self.places))
        if self.norm not in ("l2", "linf"):
            raise UserError(f"norm is {self.norm!r}{did_you_mean(self.norm, ('l2', 'linf'))}: expected l2 or linf")


@dataclass(frozen=True)
class FoolConfig:
    """The settings of `foible.fool` and `foible fool`: images from nothing that a network is sure of."""

    suspect: tuple[str, ...] = _help((), "Network to be fooled; repeat for several. Default: each network in turn.")
    encoding: str = _help(
        "cppn",
        "How an image is written down: cppn (patterns that evolve), direct (pixels that evolve), or ascent (pixels "
        "that climb the gradient; ascent?preset=plain, decay, sparse or blur).",
    )
    target: tuple[str, ...] = _help((), "Class to be given; repeat for several. Default: every class.")
    runs: int = _help(5, "Independent runs; each gives an image for every class.")
    generations: int = _help(200, "Generations of evolution.")
    population: int | None = _help(None, "Children in a generation (default: 200, from 100 classes on 400).")
    of: str = _help(
        "suspect",
        "Whose confidence counts: the suspect's; all, the mean of all networks'; or alone, the suspect's while no "
        "other network is sure of anything.",
    )
    confidence: float = _help(0.99, "The least probability of the class that counts as found.")
    seed: int = _help(0, "Seed of every random draw; the same seed gives the same findings.")
    split: str = _help("test", "Which part of the data real images come from, for comparison.")
    canvas: str | None = _help(None, "Pixels of the images: 224 or 320x240. Default: the largest network input.")
    objective: str = field(default="confidence", metadata={"flag": False})
    unit: int | None = _help(None, "Runs in one unit of work, which is one shard on disk (default: by their speed).")

    def __post_init__(self) -> None:
        for name in ("suspect", "target"):
            given = getattr(self, name)
            object.__setattr__(self, name, (given,) if isinstance(given, str) else tuple(given))
        for name in ("runs", "generations", "population", "unit"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise UserError(f"{name} is {value}: expected at least 1")
        if self.population is not None and self.population > MOST_CHILDREN:
            raise UserError(f"population is {self.population}: expected at most {MOST_CHILDREN}")


@dataclass(frozen=True)
class BoundaryConfig:
    """The settings of `foible.boundary` and `foible boundary make`: images between two classes."""

    generator: str = _help(
        "",
        "What draws the images: a folder that `foible generator train` wrote, FILE.py:NAME, hf:FOLDER, or pixels (a "
        "cross-fade of real images).",
    )
    ends: str = _help(
        "",
        "What lines begin and end with, one for each class: samples (the clearest that the generator draws), first "
        "(its first samples, however clear), images (of the data, which all networks get right), an ends.json, or a "
        "run of --candidates, whose rows tagged end are taken (RUN:ID,ID,… takes these). Default: samples; with "
        "pixels, images.",
    )
    pairs: str = _help(
        "", "Which classes, as in 1-3,4-9. Default: every class with its neighbour and the one half-way round."
    )
    steps: int = _help(11, "Images of each line, ends included.")
    path: str = _help("straight", "straight, or spherical (along the arc).")
    samples: int = _help(1000, "Samples to choose ends from.")
    sure: float = _help(0.99, "Mean probability over all networks, who must agree, from which a sample is clean.")
    candidates: int = _help(0, "In place of lines: so many samples of each class, to choose ends from by eye.")
    split: str = _help("test", "Which part of the data real images come from.")
    seed: int = _help(0, "Seed of every random draw; the same seed gives the same images.")
    canvas: str | None = _help(None, "Pixels of the images: 64 or 320x240. Default: the largest network input.")
    unlabelled: bool = _help(False, "The data has no labels: only the size of its images is taken.")
    unit: int | None = _help(None, "Lines in one unit of work, which is one shard on disk (default: by their speed).")
    first: str | None = field(default=None, metadata={"flag": False})  # files, of --from and --to
    second: str | None = field(default=None, metadata={"flag": False})
    space: str = field(default="line", metadata={"flag": False})
    judge_all: bool = field(default=False, metadata={"flag": False})

    def __post_init__(self) -> None:
        for name, least in (("steps", 2), ("samples", 1), ("candidates", 0), ("unit", 1)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise UserError(f"{name} is {value}: expected at least {least}")
        if not 0 <= self.sure <= 1:
            raise UserError(f"sure is {self.sure}: expected a probability, 0 to 1")
        if (self.first is None) != (self.second is None):
            raise UserError("one photograph alone: give --from FILE and --to FILE")
        if self.first is not None and (self.ends or self.pairs or self.candidates):
            raise UserError("--from and --to are the ends: leave --ends, --pairs and --candidates out")
