"""The columns of findings, what each of them means, and what goes with every table of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

SCHEMA_VERSION = 5
OUTCOMES = (
    "found",  # a mistake, on the very pixels of `image`
    "exhausted",  # a trial that found none
    "invalid",  # a network answered with NaN or infinity
    "held",  # an image that was right, kept to see whether it stays so
    "unsettled",  # a mistake on the original file, or in floats, that the pixels of `image` do not show
    "doubtful",  # every network agrees against the label
    "between",  # an image between two classes, of which nobody but people can say what is right
)
ADDED = {  # columns by the schema version that brought them; null in older files
    **dict.fromkeys(("tags", "origin_file"), 2),
    **dict.fromkeys(("label_from", "score", "kinds", "size", "realism"), 3),
    **dict.fromkeys(("least_path", "least_image", "least_change", "least_forwards"), 3),
    **dict.fromkeys(("target", "distance", "distance_exact"), 4),
    "method": 5,
}
CLASS_COLUMNS = ("truth", "consensus", "said", "target")  # numbers of classes

_probabilities = pa.list_(pa.list_(pa.float32()))
SCHEMA = pa.schema(  # where a column means something else in another recipe, a line above says so
    [
        # id: unique in a run: suspect, lane, and where a lane has several rows which: its label (distort), its number
        pa.field("id", pa.string()),
        pa.field("config", pa.string()),  # hash of the settings; the settings are in the metadata
        pa.field("suspect", pa.string()),
        pa.field("networks", pa.list_(pa.string())),  # order of the rows of before, after and trace
        # lane: hunt: the trial's number; distort, compare, rank, a suite's anchors: the same as origin_index
        pa.field("lane", pa.int64()),
        pa.field("outcome", pa.string()),  # one of OUTCOMES
        pa.field("tags", pa.list_(pa.string())),  # kinds that it belongs to: broken, fixed, dissent, against-label
        # image, origin, trace, realism: hunt: null of a trial that found nothing; its path shows it again
        pa.field("image", pa.binary()),  # PNG: what the trial ended with
        # origin: fool: the best image of the first generation, or where a climb began
        pa.field("origin", pa.binary()),  # PNG: the seed image; null where there is none
        pa.field("origin_data", pa.string()),
        pa.field("origin_split", pa.string()),
        pa.field("origin_index", pa.int64()),
        pa.field("origin_file", pa.string()),  # the file it was read from, as the data names it; null where none
        pa.field("truth", pa.int32()),  # class index; null where unlabelled
        pa.field("label_from", pa.string()),  # where the class aimed at came from: "label" or "consensus"
        pa.field("consensus", pa.int32()),  # the peers' common class; null where they differ. Without labels, the aim
        pa.field("said", pa.int32()),  # the suspect's class for the image; null where it gave NaN
        pa.field("target", pa.int32()),  # the class that a distortion was to reach; null where any other would do
        # before: compare, rank: of the file itself, which each network prepares in its own way
        pa.field("before", _probabilities),  # (networks, classes), of the origin
        pa.field("after", _probabilities),  # (networks, classes), of the image
        pa.field("moves", pa.int32()),  # accepted
        # candidates: hunt: moves tried; distort: labels tried; compare, rank: 1, the image; a suite's anchors: 0
        pa.field("candidates", pa.int32()),
        pa.field("forwards", pa.int64()),  # inferences spent, over all networks
        pa.field("backwards", pa.int64()),
        pa.field("path", pa.list_(pa.struct([("step", pa.int32()), ("draws", pa.list_(pa.float32()))]))),
        # trace: distort: (2, networks), before and after; compare, rank: (1, networks), before; empty without a class
        pa.field("trace", _probabilities),  # (1 + moves, networks): probability of the aimed-at class on the way
        # path, trace: fool: generations after which the suspect's confidence was noted, and (1 + moves, 1) it
        # point: fool: the genome (`spaces/cppn/files.py`); boundary: the code
        # lane, change, target: boundary: the line, {"α": 0.3}, and the class that the line leads to
        # point: distort: the image, or a layer's output, before rounding to 8 bits, null where it is large; else empty
        pa.field("point", pa.list_(pa.float32())),  # where the trial ended in its space, apart from the image
        pa.field("change", pa.map_(pa.string(), pa.float32())),  # the whole way in human units: {"rotation °": 7.1}
        # distance, distance_exact: distort only. With a layer the first is null and the second of the layer's output
        pa.field("distance", pa.float32()),  # of image and origin, pixels in [0, 1]: l2, or the norm of the settings
        pa.field("distance_exact", pa.float32()),  # the same before rounding to 8 bits
        pa.field("method", pa.string()),  # what found it, where it is not (just) the one method of the settings
        pa.field("score", pa.float32()),  # by how much the image is found, log-odds: the worst over the networks
        pa.field("size", pa.float32()),  # of the whole way, in largest moves; null where the space is no box
        pa.field("kinds", pa.list_(pa.string())),  # of move, largest first; of the least change where it is known
        pa.field("least_path", pa.list_(pa.list_(pa.float32()))),  # draws of the least change that still holds
        pa.field("least_image", pa.binary()),  # PNG: the image it gives
        pa.field("least_change", pa.map_(pa.string(), pa.float32())),  # in human units
        pa.field("least_forwards", pa.int64()),  # inferences it took to find, besides `forwards`
        pa.field("realism", pa.float32()),  # of the image: 0 as typical as clean ones, −5 unlike any
        pa.field("film", pa.binary()),  # PNG: origin and every accepted step side by side, small; of a few found rows
        pa.field("versions", pa.string()),  # JSON: foible, torch, python, device
    ]
)


def with_metadata(table: pa.Table, classes: Sequence[str], configs: dict[str, dict[str, Any]]) -> pa.Table:
    """The table with class names and the settings behind its rows attached: what every shard carries."""
    metadata = {
        "foible.schema_version": str(SCHEMA_VERSION),
        "foible.classes": json.dumps(list(classes)),
        "foible.configs": json.dumps(configs, sort_keys=True),
    }
    return table.replace_schema_metadata(metadata)
