"""What paper 4 found, as its text and tables have it: by target accuracy in %, (mean, standard deviation)."""

from __future__ import annotations

Figure = tuple[float | None, float | None]
NOTHING: Figure = (None, None)

ARCHITECTURES = {"mlp4": "MLP", "cnn4": "CNN", "vit4": "ViT"}  # of the zoo, and as the paper calls them
PEOPLE_APART: Figure = (9.3, 2.2)  # two people disagree on so many of the images, %

# Table 2, nine networks of each accuracy: % of the images.
PER_MODEL: dict[float, Figure] = {97.5: (5.9, 1.7), 98.0: (4.3, 1.1), 98.5: (3.5, 0.8)}
ACROSS: dict[float, Figure] = {97.5: (15.2, None), 98.0: (11.5, None), 98.5: (7.3, None)}
PAIRS: dict[float, Figure] = {97.5: (11.3, 2.9), 98.0: (8.5, 2.3), 98.5: (7.4, 1.8)}
NINE: dict[float, Figure] = {97.5: (28.5, None), 98.0: (21.8, None), 98.5: (18.2, None)}

# Table 3: % of the images that are of a type. What the paper calls misclassified across nine models is its type A.
TYPES: dict[str, dict[float, float]] = {
    "a": {97.5: 15.2, 98.0: 11.5, 98.5: 7.3},
    "c": {97.5: 6.1, 98.0: 9.1, 98.5: 8.5},
}

# Table 4: the largest softmax of a network, over networks and images of a type.
SOFTMAX: dict[str, dict[float, Figure]] = {
    "a": {97.5: (0.83, 0.178), 98.0: (0.85, 0.172), 98.5: (0.83, 0.187)},
    "both_disagree": {97.5: (0.87, 0.149), 98.0: (0.86, 0.152), 98.5: (0.89, 0.138)},
    "both_agree": {97.5: (0.99, 0.050), 98.0: (0.99, 0.051), 98.5: (0.99, 0.038)},
    "c": {97.5: (0.97, 0.067), 98.0: (0.96, 0.091), 98.5: (0.97, 0.082)},
}

# Table 5: the certainty of ten networks that differ by their seed, % (over ten repeats), by that of people.
LEVELS = (90, 80, 70, 60, 50)
IMAGES_AT = {90: 3, 80: 9, 70: 7, 60: 6, 50: 6}
_TABLE5 = {
    (97.5, "MLP"): ((81.7, 5.6), (86.6, 3.0), (90.9, 2.4), (80.0, 3.8), (94.7, 1.5)),
    (97.5, "CNN"): ((96.3, 2.8), (83.3, 2.1), (81.4, 2.6), (79.2, 4.2), (87.3, 2.9)),
    (97.5, "ViT"): ((85.0, 5.8), (87.2, 2.8), (82.7, 3.1), (80.5, 3.8), (93.5, 3.1)),
    (98.0, "MLP"): ((84.0, 2.0), (86.8, 3.7), (94.9, 1.6), (86.5, 4.7), (93.5, 1.7)),
    (98.0, "CNN"): ((98.0, 1.6), (83.3, 2.9), (83.3, 2.5), (79.2, 3.8), (88.0, 2.2)),
    (98.0, "ViT"): ((89.0, 5.4), (85.6, 2.5), (85.9, 3.6), (79.3, 4.5), (91.5, 1.9)),
    (98.5, "MLP"): ((86.7, 3.7), (87.2, 2.4), (94.3, 2.6), (88.0, 3.6), (94.2, 2.0)),
    (98.5, "CNN"): ((99.0, 2.1), (84.6, 3.5), (81.6, 3.5), (81.2, 6.6), (87.8, 2.0)),
    (98.5, "ViT"): ((88.3, 3.7), (88.8, 2.2), (90.3, 2.5), (81.7, 5.0), (92.7, 2.6)),
}
CERTAINTY: dict[tuple[float, str], dict[int, Figure]] = {
    key: dict(zip(LEVELS, row, strict=True)) for key, row in _TABLE5.items()
}
