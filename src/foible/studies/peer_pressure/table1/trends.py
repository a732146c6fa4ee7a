"""Table 1's trends: success falls with the size of the suspect, inferences rise, moves go from 5 to 6."""

from __future__ import annotations

from collections.abc import Sequence

from foible.studies.common import Row, shown

Series = Sequence[float | None]  # one number a suspect, smallest network first; None where there was no success
Three = tuple[Series, Series, Series]  # success in percent, moves, inferences as the paper counts


def rank_correlation(values: Series) -> float | None:
    """Spearman's correlation of the values with their place: −1 falls all the way, 1 rises; None where it has none."""
    from scipy.stats import rankdata

    known = [(place, value) for place, value in enumerate(values) if value is not None]
    if len({value for _, value in known}) < 2:
        return None
    import numpy as np

    places, ranks = np.arange(len(known)), rankdata([value for _, value in known])
    return float(np.corrcoef(places, ranks)[0, 1])


def _ratio(values: Series) -> float | None:
    first, last = values[0], values[-1]
    return None if not first or last is None else last / first


def _rise(values: Series) -> float | None:
    first, last = values[0], values[-1]
    return None if first is None or last is None else last - first


def trend_rows(table: str, measured: Three, paper: Three | None) -> list[Row]:
    """The largest network against the smallest, and rank correlations with size, of the paper and as measured."""
    quantities = (
        ("success, last ÷ first network", 0, _ratio),
        ("success, rank correlation with size", 0, rank_correlation),
        ("inferences a success, last ÷ first network", 2, _ratio),
        ("inferences a success, rank correlation with size", 2, rank_correlation),
        ("moves, last − first network", 1, _rise),
    )
    return [
        Row(table, name, None if paper is None else of(paper[place]), of(measured[place]), n=len(measured[place]))
        for name, place, of in quantities
    ]


def trend_words(table: str, measured: Three) -> list[str]:
    """Whether each of the paper's trends holds here, in plain words."""
    success, moves, cost = measured
    words = f"{table}: success {_listed(success)} %, {fall_of(success)}"
    if not any(value is not None for value in cost):
        return [f"{words}. No trial succeeded: no moves or inferences to compare."]
    return [f"{words}. Inferences a success {_listed(cost)}, {rise_of(cost)}. Moves {_listed(moves)}, {_span(moves)}."]


STEADY = 0.5  # rank correlation from which a trend counts as one (the paper's own are −0.9 and 0.7)


def fall_of(success: Series) -> str:
    """The paper: success falls from the smallest network towards the larger ones."""
    known = [value for value in success if value is not None]
    steady = rank_correlation(success)
    if not known or steady is None or success[0] is None or success[0] < max(known) or success[-1] == success[0]:
        return "not highest for the smallest network, unlike the paper"
    if steady > -STEADY:
        return "highest for the smallest network as in the paper, but not falling further among the larger ones"
    return "falling from the smallest network towards the larger ones, as in the paper"


def rise_of(cost: Series) -> str:
    """The paper: inferences a success rise with the size of the suspect."""
    known = [value for value in cost if value is not None]
    steady = rank_correlation(cost)
    if steady is None or cost[0] is None or cost[0] > min(known):
        return "not least for the smallest network, unlike the paper"
    if steady < STEADY:
        return "least for the smallest network as in the paper, but not rising further among the larger ones"
    return "rising with size, as in the paper"


def _span(moves: Series) -> str:
    """The paper: 5 moves for the smaller networks, 6 for the larger."""
    known = [value for value in moves if value is not None]
    below, above = min(known) < 4.5, max(known) >= 6.5
    words = {
        (False, False): "5 to 6 as in the paper",
        (True, False): "fewer than the paper's 5 to 6 for some or all",
        (False, True): "more than the paper's 5 to 6 for some or all",
        (True, True): "on both sides of the paper's 5 to 6",
    }[below, above]
    rise = _rise(moves)
    return words if rise is None else f"{words}; {rise:+.1f} from the first to the last network (paper: +1)"


def _listed(values: Series) -> str:
    return " / ".join(shown(value if value is None or value < 10 else round(value)) for value in values)
