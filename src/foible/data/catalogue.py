"""The data sets that Foible knows by name: what they are, where they may lie, where they come from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from foible.data.decode import SUFFIXES
from foible.data.places import candidates, data_folder, looked_in, roots
from foible.errors import UserError
from foible.text import shown

DIGITS = tuple("0123456789")


@dataclass(frozen=True)
class Known:
    """A named data set. `files` are (file to download, its SHA-256); `sources` the URLs they are under."""

    name: str
    what: str
    train: int
    test: int
    shape: tuple[int, int, int]  # channels, height, width
    classes: tuple[str, ...]
    folders: tuple[str, ...] = ()  # further folders under a root in which other tools keep it
    markers: tuple[str, ...] = ()  # any of these files (patterns) shows that a folder holds it
    sources: tuple[str, ...] = ()
    files: tuple[tuple[str, str], ...] = ()

    def find(self) -> Path | None:
        """The first folder that holds the data set."""
        for folder in candidates(self.name, *self.folders):
            # Any data set may lie in FOIBLE_DATA itself as train-*.parquet, so there that says nothing.
            bare = folder in roots()
            if any(any(folder.glob(name)) for name in self.markers if not (bare and name.endswith(".parquet"))):
                return folder
        return None

    def size(self) -> str:
        channels, height, width = self.shape
        colour = "grey" if channels == 1 else "RGB"
        return f"{self.train:,} + {self.test:,}, {width}×{height} {colour}"


_IDX = tuple(f"{p}-images{m}idx3-ubyte{e}" for p in ("train", "t10k") for m in "-." for e in ("", ".gz"))
_BATCHES = (*(f"data_batch_{k}.bin" for k in range(1, 6)), "test_batch.bin")
_PARQUET = ("train-*.parquet", "test-*.parquet")

KNOWN: dict[str, Known] = {
    known.name: known
    for known in (
        Known("digits", "handwritten digits, bundled with scikit-learn", 1442, 355, (1, 28, 28), DIGITS),
        Known(
            "mnist",
            "handwritten digits (LeCun et al. 1998)",
            60_000,
            10_000,
            (1, 28, 28),
            DIGITS,
            folders=("MNIST/raw",),
            markers=_IDX,
            sources=(
                "https://ossci-datasets.s3.amazonaws.com/mnist/",
                "https://storage.googleapis.com/cvdf-datasets/mnist/",
            ),
            files=(
                (
                    "train-images-idx3-ubyte.gz",
                    "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
                ),
                (
                    "train-labels-idx1-ubyte.gz",
                    "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
                ),
                (
                    "t10k-images-idx3-ubyte.gz",
                    "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
                ),
                (
                    "t10k-labels-idx1-ubyte.gz",
                    "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
                ),
            ),
        ),
        Known(
            "fashion-mnist",
            "articles of clothing (Xiao et al. 2017)",
            60_000,
            10_000,
            (1, 28, 28),
            (
                "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat",
                "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
            ),
            folders=("FashionMNIST/raw",),
            markers=_IDX,
            sources=("https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",),
            files=(
                (
                    "train-images-idx3-ubyte.gz",
                    "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
                ),
                (
                    "train-labels-idx1-ubyte.gz",
                    "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
                ),
                (
                    "t10k-images-idx3-ubyte.gz",
                    "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
                ),
                (
                    "t10k-labels-idx1-ubyte.gz",
                    "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
                ),
            ),
        ),
        Known(
            "cifar10",
            "small photographs of ten things (Krizhevsky 2009)",
            50_000,
            10_000,
            (3, 32, 32),
            ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"),
            folders=("cifar10/cifar-10-batches-bin", "cifar-10-batches-bin", "cifar10/plain_text"),
            markers=(*_BATCHES, *_PARQUET),
            sources=("https://www.cs.toronto.edu/~kriz/",),
            files=(
                (
                    "cifar-10-binary.tar.gz",
                    "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
                ),
            ),
        ),
        Known(
            "usps",
            "digits from envelopes (LeCun et al. 1990)",
            7291,
            2007,
            (1, 16, 16),
            DIGITS,
            markers=("zip.train.gz", "zip.train", "zip.test.gz", "zip.test"),
            sources=("https://hastie.su.domains/ElemStatLearn/datasets/",),
            # The authors publish counts per digit (zip.info.txt) and no checksum: these are the checksums of
            # files that have those counts.
            files=(
                ("zip.train.gz", "66ebf231ab51f2cf6ac1a892d0f98ccffee1079d7a5db638c1f11f366046ca16"),
                ("zip.test.gz", "8dacc3c6e136af6c3488de9e5113a7daf140c8c2f1f0b61c54ee02f03f1a962f"),
            ),
        ),
    )
}  # fmt: skip

FORMS = {
    "folder": "folder:PATH, one folder of image files a class, or files with a metadata.csv",
    "parquet": "parquet:PATH, a file or folder with an image and a label column",
    "csv": "csv:PATH, a table of image files and labels",
    "webdataset": "webdataset:PATH, tar shards of images and labels",
    "npz": "npz:PATH, NumPy arrays of images and labels",
    "celeba": "celeba:PATH?trait=Smiling, CelebA as its authors lay it out",
}


@dataclass(frozen=True)
class Available:
    """A row of `foible data`: a spec, what it is, the folder it was found in (or None), how to get it."""

    spec: str
    what: str
    size: str
    found: str | None
    how: str


def missing(name: str) -> UserError:
    """The error for a named data set that is nowhere to be found."""
    return UserError(
        f"the data set {name!r} was not found in {looked_in()}: run `foible data get {name}` to download it, "
        "`foible data` to see what is there, or use 'digits', which is always there"
    )


def available() -> list[Available]:
    """Every data set known by name, then those in FOIBLE_DATA that a form such as `parquet:` can read."""
    rows = []
    for known in KNOWN.values():
        if known.name == "digits":
            rows.append(Available(known.name, known.what, known.size(), "bundled", "always there"))
            continue
        folder = known.find()
        found = str(folder) if folder else None
        rows.append(Available(known.name, known.what, known.size(), found, f"foible data get {known.name}"))
    root = data_folder()
    entries = sorted(root.iterdir()) if root and root.is_dir() else []
    taken = {row.found for row in rows}
    for entry in entries:
        form = None if str(entry) in taken else form_of(entry)
        if form:
            what = FORMS[form].partition(", ")[2]
            rows.append(Available(f"{form}:{shown(entry.name)}", what, "", str(entry), "in FOIBLE_DATA"))
    return rows


def form_of(entry: Path) -> str | None:
    """Which form reads `entry`, judged by names alone so that listing stays cheap."""
    if entry.name.startswith("."):
        return None
    if entry.is_file():
        return {".npz": "npz", ".parquet": "parquet", ".csv": "csv", ".tar": "webdataset"}.get(entry.suffix.lower())
    if not entry.is_dir():
        return None
    if any(entry.glob("*.parquet")) or any(entry.glob("*/*.parquet")):
        return "parquet"
    if any(entry.glob("*.tar")) or any(entry.glob("*/*.tar")):
        return "webdataset"
    inside = (file for pattern in ("*/*", "*/*/*") for file in entry.glob(pattern))
    # A look at the first few names settles it; a folder of a million files must not slow the list down.
    return "folder" if any(file.suffix.lower() in SUFFIXES for file, _ in zip(inside, range(64))) else None  # noqa: B905
