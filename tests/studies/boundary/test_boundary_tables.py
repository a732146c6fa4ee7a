"""Tables 2 to 5 of a made-up matrix. The people are simulated."""

from __future__ import annotations

import numpy as np
import pytest

from foible.studies.boundary import claims, figures, tables
from foible.studies.boundary.chance import times
from foible.studies.boundary.tables import Fleet, Nine
from foible.studies.boundary.types import opinion, unanimous, votes
from foible.studies.common import Row

# Ten simulated people on eight images of two walks: they agree on the first five.
PEOPLE = np.array([[0, 1, 2, 0, 1, 0, 0, 1]] * 5 + [[0, 1, 2, 0, 1, 0, 1, 1]] * 4 + [[0, 1, 2, 0, 1, 1, 1, 2]])
COUNTS = votes(PEOPLE, 3)
SAID = np.array([[0, 1, 2, 0, 1, 0, 0, 1], [0, 1, 2, 1, 1, 0, 0, 1], [0, 1, 1, 0, 1, 0, 1, 1]])
NINE = Nine(98.0, ("MLP1", "CNN1", "ViT1"), SAID, np.where(SAID == 1, 0.9, 0.6), np.full(3, 98.0))
PAIR = np.repeat([0, 1], 4)
DRAWN = times(PAIR, 0)


def of(rows: list[Row]) -> dict[str, Row]:
    found = {row.quantity: row for row in rows}
    assert len(found) == len(rows)
    return found


def test_votes_and_pairs() -> None:
    assert COUNTS.tolist() == [[10, 0, 0], [0, 10, 0], [0, 0, 10], [10, 0, 0], [0, 10, 0], [9, 1, 0], [5, 5, 0],
                               [0, 9, 1]]  # fmt: skip
    assert tables.apart(SAID).tolist() == pytest.approx([0, 0, 2 / 3, 2 / 3, 0, 0, 2 / 3, 0])
    assert tables.disagree(SAID).tolist() == [False, False, True, True, False, False, True, False]


def test_table_2() -> None:
    rows = of(tables.table2(NINE, opinion(COUNTS), DRAWN))
    wrong = rows["98 %: people agree, a network says something else"]
    assert (wrong.paper, wrong.measured) == (4.3, pytest.approx(100 * (0 + 1 / 8 + 1 / 8) / 3))
    spread = rows["98 %: people agree, a network says something else: standard deviation"]
    assert (spread.paper, spread.measured) == (1.1, pytest.approx(np.std([0, 12.5, 12.5], ddof=1)))
    assert rows["98 %: people agree, some network says something else"].measured == pytest.approx(25.0)
    assert rows["98 %: two networks disagree"].measured == pytest.approx(100 * (1 + 2 + 3) / 3 / 8)
    assert rows["98 %: two networks disagree"].paper == 8.5
    assert rows["98 %: not all 3 networks agree"].measured == pytest.approx(37.5)
    without = of(tables.table2(NINE, None, DRAWN))
    assert set(without) == {name for name in rows if "people" not in name}


def test_table_3_with_one_person_left_out() -> None:
    rows = of(tables.table3(NINE, COUNTS, PEOPLE, DRAWN))
    assert rows["98 %: A: networks disagree, people agree"].measured == pytest.approx(25.0)
    assert rows["98 %: A: networks disagree, people agree"].paper == 11.5
    assert rows["98 %: C: networks agree, people disagree"].measured == pytest.approx(25.0)
    left = rows["98 %: C, one person left out in turn (from the least to the most)"]
    # Without the last person the sixth and the eighth image are no boundary cases.
    assert (left.low, left.high, left.n) == (0.0, pytest.approx(25.0), 10)
    assert left.measured == pytest.approx(22.5)


def test_table_4() -> None:
    rows = of(tables.table4(NINE, opinion(COUNTS), DRAWN))
    a = rows["98 %: A: networks disagree, people agree"]
    assert a.measured == pytest.approx(np.mean([0.6, 0.6, 0.9, 0.6, 0.9, 0.6]))
    assert a.paper == 0.85
    assert rows["98 %: A: networks disagree, people agree: standard deviation"].paper == 0.172
    assert rows["98 %: both agree, on different classes"].measured is None
    without = of(tables.table4(NINE, None, DRAWN))
    assert without["98 %: networks agree"].n == 5


def test_table_5_and_figure_2_are_of_repeats() -> None:
    fleet = Fleet("MLP", 98.0, np.stack([SAID, np.zeros_like(SAID)]), np.full((2, 3), 98.0))
    rows = of(tables.table5(fleet, COUNTS))
    ninety = rows["98 %, MLP: people 90 % certain"]
    assert (ninety.paper, ninety.measured, ninety.n) == (84.0, pytest.approx(100.0), 2)
    fifty = rows["98 %, MLP: people 50 % certain"]
    assert fifty.measured == pytest.approx(100 * (2 / 3 + 1) / 2)
    assert rows["98 %, MLP: people 50 % certain: standard deviation"].measured == pytest.approx(100 / 3 / 2**0.5)
    assert rows["98 %, MLP: people 70 % certain"].measured is None
    shares = tables.fleet_shares(fleet, opinion(COUNTS))
    assert shares["A"].tolist() == pytest.approx([25.0, 0.0])
    assert shares["C"].tolist() == pytest.approx([25.0, 37.5])
    assert tables.fleet_shares(fleet, None)["disagree"].tolist() == pytest.approx([37.5, 0.0])


def test_people_against_people() -> None:
    rows = of(tables.people_rows(PEOPLE, COUNTS, DRAWN))
    pairs = rows["two people disagree, % of the images"]
    # 9, 25 and 9 of 45 pairs on the last three of eight images
    assert (pairs.paper, pairs.measured) == (9.3, pytest.approx(100 * (9 + 25 + 9) / 45 / 8))
    assert rows["images that people are 90 % certain of"].measured == 2
    assert rows["not all 10 people agree, % of the images"].measured == pytest.approx(37.5)


def _fleets(low: list[float], high: list[float], name: str = "MLP") -> list[Fleet]:
    """Repeats of two seeds that disagree on so many of 100 images at 97 and at 98 %."""
    found = []
    for target, shares in ((97.0, low), (98.0, high)):
        said = np.zeros((len(shares), 2, 100), int)
        for repeat, share in enumerate(shares):
            said[repeat, 1, : int(share)] = 1
        found.append(Fleet(name, target, said, np.full((len(shares), 2), target)))
    return found


def test_claims_hold_fail_or_stay_open() -> None:
    falling = _fleets([20, 22, 24, 26, 28, 30], [10, 12, 13, 14, 15, 16])
    people, drawn = opinion(np.repeat([[10, 0, 0]], 100, 0)), times(np.arange(100), 0)
    rows = claims.with_accuracy(falling, people, drawn)
    words = [row.quantity for row in rows]
    assert words[0] == "A falls with accuracy, MLP: % of the images for each % of accuracy"
    assert rows[0].measured == pytest.approx(np.mean([10, 10, 11, 12, 13, 14]) * -1)
    assert words[1] == "A falls with accuracy, MLP: p (holds)"
    assert rows[1].measured == pytest.approx(1 / 64)
    assert words[3] == "A falls with accuracy, MLP, over images: p (holds)"
    assert rows[2].measured == pytest.approx(rows[0].measured)
    assert (rows[0].n, rows[2].n) == (6, 100)
    assert words[5] == "C rises with accuracy, MLP: p (not decided)"  # people agree everywhere: there is no C
    rising = claims.with_accuracy([*falling[1:], falling[0]._replace(target=99.0)], people, drawn)
    assert rising[1].quantity.endswith("p (the opposite holds)")
    others = _fleets([40, 41, 42, 43, 44, 45], [30, 31, 32, 33, 34, 35], "CNN")
    told = of(claims.of_mlps(falling + others, people, drawn))
    assert "MLPs have least of type A, 97 %: p (holds)" in told
    against = of(claims.of_mlps(falling + others + _fleets([1] * 6, [1] * 6, "ViT"), people, drawn))
    assert "MLPs have least of type A, 97 %: p (the opposite holds)" in against  # the ViT has less
    assert not claims.of_mlps(others, people, drawn)


def test_what_holds_for_other_seeds_need_not_hold_for_other_images() -> None:
    people, drawn = opinion(np.repeat([[10, 0, 0]], 100, 0)), times(np.arange(100), 0)
    told = of(claims.with_accuracy(_fleets([11] * 6, [10] * 6), people, drawn))  # every time by the same one image
    assert "A falls with accuracy, MLP: p (holds)" in told
    assert "A falls with accuracy, MLP, over images: p (not decided)" in told
    told = of(claims.of_mlps(_fleets([10] * 6, [10] * 6) + _fleets([11] * 6, [40] * 6, "CNN"), people, drawn))
    assert "MLPs have least of type A, 97 %: p (holds)" in told
    assert "MLPs have least of type A, 97 %, over images: p (not decided)" in told
    assert "MLPs have least of type A, 98 %, over images: p (holds)" in told


def test_one_repeat_is_judged_over_images() -> None:
    people, drawn = opinion(np.repeat([[10, 0, 0]], 100, 0)), times(np.arange(100), 0)
    mine, others = _fleets([30], [10]), _fleets([34], [40], "CNN")
    [share] = tables.figure2(mine[0], people, drawn)[:1]
    assert (share.measured, share.n) == (30.0, 100)
    assert share.low is not None
    assert share.high is not None
    assert 18 < share.low < 30 < share.high < 42  # 30 ± 1.96 · 4.6
    slope, decided = claims.with_accuracy(mine, people, drawn)[:2]
    assert (slope.measured, slope.n) == (pytest.approx(-20.0), 100)
    assert decided.quantity == "A falls with accuracy, MLP: p (holds)"
    told = of(claims.of_mlps(mine + others, people, drawn))
    assert "MLPs have least of type A, 98 %: p (holds)" in told
    assert told["MLPs have least of type A, 97 %: difference from the nearest other, % of the images"].measured == -4
    single = claims.with_accuracy(mine[:1], people, drawn)  # at one accuracy there is no slope
    assert single[1].quantity.endswith("p (cannot be told)")


def test_softmax_order_and_certainties() -> None:
    draw = np.random.default_rng(0)
    said = np.zeros((3, 60), int)
    said[0, :20] = 1  # networks disagree
    counts = np.repeat([[10, 0]], 60, 0)
    counts[30:, 1], counts[30:, 0] = 4, 6  # A: 0–19; both agree: 20–29; C: 30–59
    sure = np.where(np.arange(60) < 20, 0.5, 0.9) + draw.normal(0, 0.01, (3, 60))
    rows = of(claims.softmax_order(Nine(98.0, ("a", "b", "c"), said, sure, np.zeros(3)), opinion(counts)))
    assert "largest softmax lower for A than for C, 98 %: p (holds)" in rows
    assert "largest softmax lower for A than where both disagree, 98 %: p (cannot be told)" in rows
    counts[30:, 0] = draw.integers(5, 9, 30)
    counts[:, 1] = 10 - counts[:, 0]
    alike = np.zeros((1, 10, 60), int)
    for image in range(30, 60):
        alike[0, : 10 - counts[image, 0], image] = 1  # as certain as people
    told = of(claims.certainties(Fleet("CNN", 98.0, alike, np.zeros((1, 10))), counts, times(np.arange(60), 0)))
    assert "certainty of people and networks is not correlated, CNN, 98 %: p (there is one)" in told


def test_a_two_way_table_has_its_means() -> None:
    each = {f"{kind}{n}": np.array([10.0 * at + n]) for at, kind in enumerate(("MLP", "CNN", "ViT")) for n in (1, 2, 3)}
    table = of(claims.factorial(each, "wrong, %"))
    assert table["CNN, mean: wrong, %"].measured == pytest.approx(12.0)
    assert table["recipe 3, mean: wrong, %"].measured == pytest.approx(13.0)
    assert table["ViT, recipe 1: wrong, %"].measured == 21.0
    assert "architectures: p (they differ)" in table
    assert table["both together: p (cannot be told)"].measured is None
    assert "both together: share of the variance, %" not in table
    assert claims.factorial({"MLP1": np.ones(2), "CNN2": np.ones(2)}, "wrong, %") == []
    assert claims.factorial(each | {"MLP1": np.zeros(0)}, "wrong, %") == []


def test_seeds_of_a_two_way_table_tell_what_both_do_together() -> None:
    draw = np.random.default_rng(0)
    each = {f"{kind}{n}": draw.normal(20 + 3 * (kind == "CNN" and n == 2), 0.5, 5)
            for kind in ("MLP", "CNN") for n in (1, 2)}  # fmt: skip
    each["MLP1"] = np.append(each["MLP1"], 99.0)  # one seed more than the others have
    rows = claims.factorial(each, "wrong, %")
    table = of(rows)
    cell = table["CNN, recipe 2: wrong, %"]
    assert cell.n == 5
    assert cell.measured == pytest.approx(each["CNN2"].mean())
    assert cell.low is not None
    assert cell.low < cell.measured < 99
    assert "both together: p (they differ)" in table
    shares = [row.measured for row in rows if "share of the variance" in row.quantity]
    assert len(shares) == 3
    assert 90 < sum(one for one in shares if one is not None) < 100


def test_colours_of_figure_4() -> None:
    from matplotlib.colors import to_hex

    found = [to_hex(one) for one in figures.colours(np.array([1, 2, 3, 1, 1, 2]), np.array([1, 1, 1, 2, 3, 2]))]
    assert found == [figures.GREY, *figures.BLUE, *figures.RED, "#ffffff"]


def test_fewer_people_agree_more_easily() -> None:
    counts = np.array([[3, 1], [4, 0], [0, 0]])
    assert unanimous(counts, 1).tolist() == pytest.approx([1, 1, 0])
    assert unanimous(counts, 2).tolist() == pytest.approx([3 / 6, 1, 0])  # 3 of 6 pairs are of the three
    assert unanimous(counts, 4).tolist() == pytest.approx([0, 1, 0])
    assert unanimous(counts, 40).tolist() == pytest.approx([0, 1, 0])  # there are only four
