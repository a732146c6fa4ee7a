"""Which lanes make a unit: never more than take half a minute by what was measured, all of them, and each once."""

from __future__ import annotations

import pytest

from foible.runs.spans import EMPTY, SECONDS, SPARE, Plan, Span, gaps, numbered


def _done(plan: Plan, seconds_a_lane: float) -> list[Span]:
    """All units of a plan, where every lane takes as long."""
    units = []
    while (span := plan.next()) is not None:
        units.append(span)
        plan.took(span, seconds_a_lane * span.size)
    return units


@pytest.mark.parametrize("pace", [0.001, 0.1, 1.0, 7.0])
@pytest.mark.parametrize("workers", [1, 2, 3])
def test_units_take_half_a_minute_at_most_and_cover_every_lane_once(pace: float, workers: int) -> None:
    lanes = [1000, 1000, 250]
    units = _done(Plan(gaps((), lanes), first=4, least=4, most=400, workers=workers), pace)
    assert gaps(units, lanes) == []
    assert sum(unit.size for unit in units) == sum(lanes)
    assert units[0].size == 4, "the first one is small: nothing is known yet"
    assert max(unit.size for unit in units) <= max(4, min(400, SPARE * SECONDS / pace))
    if pace == 0.001:
        assert len(units) < 20, "and they are not smaller than they need be"


def test_a_slow_unit_makes_the_next_ones_smaller() -> None:
    plan = Plan([Span(0, 0, 1000)], first=10, least=1, most=500)
    first = plan.next()
    assert first == Span(0, 0, 10)
    plan.took(first, 1.0)
    second = plan.next()
    assert second is not None
    assert 150 < second.size <= 250
    plan.took(second, 100 * second.size)  # the machine has begun to do something else
    third = plan.next()
    assert third is not None
    assert third.size == 1


def test_the_last_units_are_shared_out_so_that_workers_end_together() -> None:
    plan = Plan([Span(0, 0, 1000)], first=10, least=1, most=5000, workers=2)
    first, other = plan.next(), plan.next()
    assert first is not None
    assert other is not None
    plan.took(first, 0.1)
    assert [plan.next(), plan.next(), plan.next()] == [Span(0, 20, 510), Span(0, 510, 1000), None]
    slow = Plan([Span(0, 0, 1000)], first=10, least=1, most=5000, workers=2)
    slow.took(Span(0, 0, 10), 1.0)  # 250 lanes are what a unit should have
    assert [unit.size for unit in iter(slow.next, None)] == [250] * 4, "two rounds of both, and not three units"
    parts = Plan([Span(part, 0, 100) for part in range(3)], first=10, least=1, most=5000, workers=2)
    parts.took(Span(0, 0, 10), 0.1)
    assert [unit.size for unit in iter(parts.next, None)] == [100, 100, 50, 50]


def test_a_size_that_was_asked_for_is_kept_whatever_is_measured() -> None:
    units = _done(Plan([Span(0, 0, 25), Span(1, 5, 12)], first=10, least=10, most=10), 100.0)
    assert units == [Span(0, 0, 10), Span(0, 10, 20), Span(0, 20, 25), Span(1, 5, 12)]


def test_a_span_is_called_by_its_lanes() -> None:
    span = Span(2, 100, 1600)
    assert Span.called(span.name) == span
    names = [Span(*numbers).name for numbers in ((0, 5, 20), (0, 40, 100), (0, 1000, 1001), (1, 0, 3))]
    assert names == sorted(names)
    for name in ("unit-000001", "unit-0-1-2", f"{span.name} (copy)", "unit-02-000000100-000001600", "unit"):
        assert Span.called(name) is None, name


def test_what_is_missing_whatever_is_there() -> None:
    there = [Span(0, 10, 20), Span(0, 40, 50), Span(2, 0, 50)]
    assert gaps(there, [50, 50, 50]) == [Span(0, 0, 10), Span(0, 20, 40), Span(1, 0, 50)]
    assert gaps((), [0, 0]) == [EMPTY], "a run without lanes has one unit, which says so"
    assert gaps([EMPTY], [0, 0]) == []


def test_numbers_of_earlier_versions_are_lanes_too() -> None:
    assert [numbered(unit, [25, 10], 10) for unit in range(5)] == [
        Span(0, 0, 10), Span(0, 10, 20), Span(0, 20, 25), Span(1, 0, 10), None,
    ]  # fmt: skip
    assert numbered(0, [0], 10) == EMPTY


def test_what_a_small_unit_takes_is_mostly_the_same_for_a_larger_one() -> None:
    """Ten seconds for any unit, and a hundredth more for each lane: sizes grow quickly, and no unit takes too long."""
    plan, units = Plan([Span(0, 0, 20_000)], first=16, least=16, most=20_000), []
    while (span := plan.next()) is not None:
        units.append(span.size)
        plan.took(span, 10 + 0.01 * span.size)
    assert max(units) > 1000
    assert 10 + 0.01 * max(units) < 1.2 * SECONDS
    assert len(units) < 25
