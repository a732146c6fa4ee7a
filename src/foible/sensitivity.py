"""What each network is sensitive to (paper 1, Sec. 4: "Network 1 was often sensitive to lighting cues").

From the findings of a run in which several networks were the suspect in turn: which kinds of move a network's mistakes
are made of, in which classes it makes them, and which kinds go together, each against its peers in the same run.

Findings are counted as independent of each other. Suspects of one run share seed images; the intervals make no use of
that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import combinations

from foible.errors import UserError
from foible.findings import Findings
from foible.odds import Odds, holm, odds_ratio, ratio_of_ratios

LIGHTING = frozenset({"brightness", "contrast", "gamma", "saturation", "hue", "cast"})  # all other kinds are geometry


@dataclass(frozen=True)
class KindRow:
    """Of a network's `mistakes`, `count` contain this kind (or, for a group, any kind of it); likewise its peers'."""

    network: str
    kind: str
    group: bool
    count: int
    mistakes: int
    peers_count: int
    peers_mistakes: int
    odds: Odds
    holm: float  # p, adjusted over all networks and kinds of this run

    def __str__(self) -> str:
        return f"{self.network}: {self.kind} odds ratio {self.odds}"


@dataclass(frozen=True)
class ClassRow:
    """Of a network's `trials` from this class, `found` ended in a mistake. `odds`: against its peers' trials.

    `beyond` is the same against its own other classes: the odds ratio here by that elsewhere. A network that is weaker
    everywhere has high `odds` in every class and a `beyond` of about 1.
    """

    network: str
    label: str
    found: int
    trials: int
    peers_found: int
    peers_trials: int
    odds: Odds
    beyond: Odds
    holm: float  # p of `beyond`, adjusted over all networks and classes

    def __str__(self) -> str:
        own, peers = (100 * a / b if b else 0 for a, b in self._shares)
        return (
            f"{self.network}: {self.label} found in {own:.0f} % of trials, peers {peers:.0f} %; "
            f"odds ratio beyond its other classes {self.beyond}"
        )

    @property
    def _shares(self) -> tuple[tuple[int, int], tuple[int, int]]:
        return (self.found, self.trials), (self.peers_found, self.peers_trials)


@dataclass(frozen=True)
class PairRow:
    """Of a network's mistakes, `observed` contain both; `expected` would, were they independent.

    Every mistake contains at least one kind, so that even unrelated kinds exclude each other a little (an odds ratio
    below 1): compare with the peers', which suffer the same.
    """

    network: str
    first: str
    second: str
    observed: int
    expected: float
    peers_observed: int
    peers_expected: float
    odds: Odds
    holm: float

    def __str__(self) -> str:
        return (
            f"{self.network}: {self.first} with {self.second} {self.observed} times, {self.expected:.1f} expected; "
            f"odds ratio {self.odds}"
        )


@dataclass(frozen=True)
class Sensitivity:
    """All rows; `networks` are those that were the suspect."""

    networks: tuple[str, ...]
    kinds: tuple[KindRow, ...]
    classes: tuple[ClassRow, ...]
    pairs: tuple[PairRow, ...]

    def as_text(self, level: float = 0.05) -> str:
        """One line for everything that stands out after Holm's adjustment, the surest of each network first."""
        lines = []
        for network in self.networks:
            everything: list[KindRow | ClassRow | PairRow] = [*self.kinds, *self.classes, *self.pairs]
            rows = [row for row in everything if row.network == network and row.holm < level]
            rows.sort(key=lambda row: row.holm)
            lines += [str(row) for row in rows] or [f"{network}: nothing that sets it apart from its peers"]
        return "\n".join(lines)

    def renamed(self, names: Mapping[str, str]) -> Sensitivity:
        """The same with other names of the networks: shorter ones, for a table."""
        return Sensitivity(
            tuple(names[name] for name in self.networks),
            tuple(replace(row, network=names[row.network]) for row in self.kinds),
            tuple(replace(row, network=names[row.network]) for row in self.classes),
            tuple(replace(row, network=names[row.network]) for row in self.pairs),
        )


def sensitivity(findings: Findings) -> Sensitivity:
    """Compare every suspect of `findings` with the others. Kinds need a hunt that shrinks its finds."""
    names = tuple(dict.fromkeys(findings.column("suspect")))
    if len(names) < 2:
        raise UserError(
            f"sensitivity compares networks, and these findings have {len(names)} suspect: hunt with each network in "
            "turn (leave --suspect out)"
        )
    made: dict[str, list[frozenset[str]]] = {name: [] for name in names}
    tried: dict[str, list[tuple[str, bool]]] = {name: [] for name in names}
    columns = (findings.column(name) for name in ("suspect", "outcome", "kinds", "truth", "consensus"))
    for suspect, outcome, kinds, truth, consensus in zip(*columns, strict=True):
        if outcome == "found" and kinds:
            made[suspect].append(frozenset(kinds))
        label = consensus if truth is None else truth
        if label is not None:
            tried[suspect].append((findings.name_of(label), outcome == "found"))
    return Sensitivity(names, _kind_rows(made), _class_rows(tried), _pair_rows(made))


def _present(made: dict[str, list[frozenset[str]]]) -> tuple[list[str], dict[str, frozenset[str]]]:
    """The kinds of a run, lighting first, and the groups of them that it has both of."""
    kinds = sorted({kind for rows in made.values() for one in rows for kind in one})
    lighting = [kind for kind in kinds if kind in LIGHTING]
    geometry = [kind for kind in kinds if kind not in LIGHTING]
    both = {"lighting": frozenset(lighting), "geometry": frozenset(geometry)} if lighting and geometry else {}
    return lighting + geometry, both


def _others(made: dict[str, list[frozenset[str]]], name: str) -> list[frozenset[str]]:
    return [one for other, rows in made.items() if other != name for one in rows]


def _kind_rows(made: dict[str, list[frozenset[str]]]) -> tuple[KindRow, ...]:
    kinds, groups = _present(made)
    wanted = {**groups, **{kind: frozenset({kind}) for kind in kinds}}
    rows = []
    for name, own in made.items():
        peers = _others(made, name)
        for kind, members in wanted.items():
            a, c = (sum(bool(one & members) for one in part) for part in (own, peers))
            odds = odds_ratio(a, len(own) - a, c, len(peers) - c)
            rows.append(KindRow(name, kind, kind in groups, a, len(own), c, len(peers), odds, 1.0))
    return tuple(replace(row, holm=p) for row, p in zip(rows, holm([row.odds.p for row in rows]), strict=True))


def _class_rows(tried: dict[str, list[tuple[str, bool]]]) -> tuple[ClassRow, ...]:
    labels = list(dict.fromkeys(sorted(label for rows in tried.values() for label, _ in rows)))
    rows = []
    for name, own in tried.items():
        peers = [one for other, trials in tried.items() if other != name for one in trials]
        for label in labels:
            here = [_counts(trials, label, same=True) for trials in (own, peers)]
            there = [_counts(trials, label, same=False) for trials in (own, peers)]
            odds = odds_ratio(*_table(here))
            beyond = ratio_of_ratios(_table(here), _table(there))
            rows.append(ClassRow(name, label, *here[0], *here[1], odds, beyond, 1.0))
    return tuple(replace(row, holm=p) for row, p in zip(rows, holm([row.beyond.p for row in rows]), strict=True))


def _counts(trials: list[tuple[str, bool]], label: str, *, same: bool) -> tuple[int, int]:
    """How many trials of a class (or of all others) ended in a mistake, and how many there were."""
    mistakes = [found for other, found in trials if (other == label) is same]
    return sum(mistakes), len(mistakes)


def _table(shares: list[tuple[int, int]]) -> tuple[int, int, int, int]:
    (a, own), (c, peers) = shares
    return a, own - a, c, peers - c


def _pair_rows(made: dict[str, list[frozenset[str]]]) -> tuple[PairRow, ...]:
    """Lighting with each kind of geometry; where a run has one group alone, every two of its kinds."""
    kinds, groups = _present(made)
    members = {**groups, **{kind: frozenset({kind}) for kind in kinds}}
    geometry = [kind for kind in kinds if kind not in LIGHTING]
    pairs = [("lighting", kind) for kind in geometry] if groups else list(combinations(kinds, 2))
    rows = []
    for name, own in made.items():
        peers = _others(made, name)
        for first, second in pairs:
            table, there = (_both(part, members[first], members[second]) for part in (own, peers))
            rows.append(
                PairRow(
                    name, first, second, table[0], _expected(table), there[0], _expected(there), odds_ratio(*table), 1.0
                )
            )
    return tuple(replace(row, holm=p) for row, p in zip(rows, holm([row.odds.p for row in rows]), strict=True))


def _both(rows: list[frozenset[str]], first: frozenset[str], second: frozenset[str]) -> tuple[int, int, int, int]:
    """How many contain both, the first alone, the second alone, neither."""
    seen = [(bool(one & first), bool(one & second)) for one in rows]
    return seen.count((True, True)), seen.count((True, False)), seen.count((False, True)), seen.count((False, False))


def _expected(table: tuple[int, int, int, int]) -> float:
    both, first, second, _ = table
    return (both + first) * (both + second) / sum(table) if sum(table) else 0.0
