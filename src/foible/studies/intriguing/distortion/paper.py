"""Paper 3's own figures: Tables 1 to 4 and Figs. 5 and 7, as printed."""

from __future__ import annotations

# network -> training error %, test error %, average minimal distortion
TABLE1 = {
    "softmax1": (6.7, 7.4, 0.062),
    "softmax2": (10.0, 9.4, 0.1),
    "softmax3": (21.2, 20.0, 0.14),
    "N100-100-10": (0.0, 1.64, 0.058),
    "N200-200-10": (0.0, 1.54, 0.065),
    "AE400-10": (0.57, 1.9, 0.086),
}

_TABLE2 = {  # distorted for -> errors % of the networks above, in their order
    "softmax1": (100, 11.7, 22.7, 2, 3.9, 2.7),
    "softmax2": (87.1, 100, 35.2, 35.9, 27.3, 9.8),
    "softmax3": (71.9, 76.2, 100, 48.1, 47, 34.4),
    "N100-100-10": (28.9, 13.7, 21.1, 100, 6.6, 2),
    "N200-200-10": (38.2, 14, 23.8, 20.3, 100, 2.7),
    "AE400-10": (23.4, 16, 24.8, 9.4, 6.6, 100),
    "Gaussian noise, σ = 0.1": (5.0, 10.1, 18.3, 0, 0, 0.8),
    "Gaussian noise, σ = 0.3": (15.6, 11.3, 22.7, 5, 4.3, 3.1),
}
TABLE2 = {
    (row, judge): float(value) for row, values in _TABLE2.items() for judge, value in zip(TABLE1, values, strict=True)
}

# network -> error on P1, P2 and test %, average minimal distortion
TABLE3 = {"M1": (0.0, 2.4, 2.0, 0.062), "M1'": (0.0, 2.5, 2.1, 0.059), "M2": (2.3, 0.0, 2.1, 0.058)}

_TABLE4: dict[float | None, dict[str, tuple[float, ...]]] = {
    None: {
        "M1": (100, 26.2, 5.9),
        "M1'": (6.25, 100, 5.1),
        "M2": (8.2, 8.2, 100),
        "Gaussian noise, σ = 0.06": (2.2, 2.6, 2.4),
    },
    0.1: {
        "M1": (100, 98, 43),
        "M1'": (96, 100, 22),
        "M2": (27, 50, 100),
        "Gaussian noise, σ = 0.1": (2.6, 2.8, 2.7),
    },
}
TABLE4 = {  # amplification -> (row, judge) -> error %
    size: {(row, judge): float(v) for row, values in rows.items() for judge, v in zip(TABLE3, values, strict=True)}
    for size, rows in _TABLE4.items()
}

NOISE2, NOISE4 = (0.1, 0.3), (0.06, 0.1)
FIG5_IMAGES, FIG5_DISTORTION = 64, 0.006508  # AlexNet, full-size photographs
FIG7_NOISE, FIG7_ACCURACY = 1.0, 51.0
