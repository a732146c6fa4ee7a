"""The figures of a report as plain data: numbers, words and SVG geometry, for the template to draw."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

from foible.report import words
from foible.report.counts import Counts, Suspect
from foible.report.pictures import Picture, frames, picture
from foible.report.run import About
from foible.report.sample import Sample
from foible.statistics import wilson

STEPS = 7  # of a session, at most: the first, the last, and between them evenly
ENOUGH = 20  # findings of a suspect: below that, a map of pairs of classes says less than the gallery
AXIS = 20  # classes on a side of a confusion picture, at most
BINS = (15, 31)  # of a histogram, of few values and of many
COMPONENTS = 12


@dataclass(frozen=True)
class Bar:
    network: str
    value: float  # in [0, 1]
    suspect: bool


@dataclass(frozen=True)
class Step:
    caption: str
    picture: Picture | None
    bars: list[Bar]

    @property
    def own(self) -> str:
        return words.brief(bar.value for bar in self.bars if bar.suspect)

    @property
    def peers(self) -> str:
        return words.brief(bar.value for bar in self.bars if not bar.suspect)

    @property
    def spoken(self) -> str:
        return ", ".join(f"{bar.network} {words.probability(bar.value)}" for bar in self.bars)


def session(row: dict[str, Any]) -> list[Step]:
    """The accepted steps of one finding, with every network's activation: the paper's Figure 5."""
    trace, networks, suspect = row["trace"] or [], row["networks"] or [], row["suspect"]
    pictures: list[Picture | None] = list(frames(row["film"], len(trace), row["image"]) or [])
    numbers = list(range(len(trace)))
    if not pictures:  # no film: where it began and where it ended
        numbers = numbers[:1] + numbers[1:][-1:]
        pictures = [picture(row["origin"]), picture(row["image"])][-len(numbers) :]
        trace = [trace[number] for number in numbers]
    order = sorted(range(len(networks)), key=lambda place: networks[place] != suspect)
    shown = np.unique(np.linspace(0, len(trace) - 1, min(STEPS, len(trace))).round().astype(int))
    steps = []
    for place in shown.tolist():
        line = [float("nan") if value is None else float(value) for value in trace[place]]
        bars = [Bar(networks[k], line[k], networks[k] == suspect) for k in order if k < len(line)]
        caption = "start" if numbers[place] == 0 else f"step {numbers[place]}"
        steps.append(Step(caption, pictures[place], bars))
    return steps


def results(result: Counts) -> list[dict[str, Any]]:
    """A row per suspect for the table of results; means are over found rows."""
    rows = []
    for suspect in result.suspects.values():
        low, high = wilson(suspect.solved, suspect.trials)
        each = max(1, suspect.found)
        equivalents = suspect.forwards + 2 * suspect.backwards
        means = (suspect.moves / each, suspect.forwards / each, equivalents / each)
        shown = [
            words.number(mean, digits) if suspect.found else "–" for mean, digits in zip(means, (1, 0, 0), strict=True)
        ]
        rows.append(
            {
                "name": suspect.name, "trials": suspect.trials, "found": suspect.found,
                "share": suspect.solved / max(1, suspect.trials), "low": low, "high": high,
                "moves": shown[0], "forwards": shown[1], "equivalents": shown[2],
                "exhausted": suspect.exhausted, "invalid": suspect.invalid,
            }
        )  # fmt: skip
    return rows


def confusion_axis(result: Counts) -> list[int]:
    """The classes of the confusion pictures: all, or those that take part in most mistakes."""
    counts: Counter[int] = Counter()
    for suspect in result.suspects.values():
        for (right, said), count in suspect.confusion.items():
            counts[right] += count
            counts[said] += count
    if len(result.about.classes) <= AXIS and all(0 <= label < len(result.about.classes) for label in counts):
        return list(range(len(result.about.classes)))
    return sorted(sorted(counts, key=lambda label: (-counts[label], label))[:AXIS])


def confusions(result: Counts, axis: list[int]) -> list[dict[str, Any]]:
    """A picture of each suspect that has enough findings for one."""
    return [confusion(one, axis, result.about) for one in result.suspects.values() if one.found >= ENOUGH]


def confusion(suspect: Suspect, axis: list[int], about: About) -> dict[str, Any]:
    """Right class (down) against what the suspect said (across), with the commonest pairs in words."""
    pairs = suspect.confusion
    top = max((pairs[a, b] for a in axis for b in axis), default=0)
    cells = [[(pairs[a, b], pairs[a, b] / max(1, top), a == b) for b in axis] for a in axis]
    common = sorted(pairs.items(), key=lambda item: (-item[1], item[0]))[:3]
    return {
        "name": suspect.name,
        "rows": list(zip([_label(a, about) for a in axis], cells, strict=True)),
        "common": [(_label(a, about), _label(b, about), count) for (a, b), count in common],
        "inside": sum(pairs[a, b] for a in axis for b in axis),
        "found": suspect.found,
    }


def _label(label: int, about: About) -> str:
    return about.class_name(None if label < 0 else label)


def components(result: Counts) -> list[dict[str, Any]]:
    """For each component of the changes, a strip per suspect on one common scale."""
    keys: Counter[str] = Counter()
    for suspect in result.suspects.values():
        keys.update({key: sample.seen for key, sample in suspect.changes.items()})
    panels = []
    for key in [key for key in keys if keys[key]][:COMPONENTS]:
        samples = {s.name: s.changes[key] for s in result.suspects.values() if key in s.changes and s.changes[key].seen}
        ends = [np.quantile(sample.values, [0.005, 0.995]) for sample in samples.values()]
        low, high = min(0.0, *(float(e[0]) for e in ends)), max(0.0, *(float(e[1]) for e in ends))
        if low == high:
            low, high = low - 1, high + 1
        name, unit = words.split_unit(key)
        bins = BINS[max(sample.seen for sample in samples.values()) >= 200]
        strips = [_strip(who, sample, (low, high), bins, unit) for who, sample in samples.items()]
        panels.append(
            {
                "name": name, "strips": strips, "bins": bins, "zero": -low / (high - low),
                "low": words.signed(low, unit) if -low > 0.2 * (high - low) else "",
                "high": words.signed(high, unit) if high > 0.2 * (high - low) else "",
                "thinned": any(sample.stride > 1 for sample in samples.values()),
            }
        )  # fmt: skip
    return panels


def _strip(name: str, sample: Sample, ends: tuple[float, float], bins: int, unit: str) -> dict[str, Any]:
    """One histogram as an SVG path in a box of `bins` by 1, with its quartiles in the same units."""
    low, high = ends
    counts, _ = np.histogram(sample.values.clip(low, high), bins, ends)
    heights = counts / max(1, counts.max())
    bars = "".join(f"M{place} 1V{1 - height:.3f}h1V1z" for place, height in enumerate(heights.tolist()) if height > 0)
    lower, median, upper = sample.quartiles()
    across = [bins * (min(max(value, low), high) - low) / (high - low) for value in (lower, median, upper)]
    return {
        "name": name, "path": bars, "lower": across[0], "median": across[1], "upper": across[2],
        "text": words.signed(median, unit), "n": sample.seen,
        "range": f"{words.signed(lower, unit)} to {words.signed(upper, unit)}",
    }  # fmt: skip


def standouts(result: Counts) -> list[tuple[str, list[dict[str, str]]]]:
    """For each suspect, the components whose sign is lopsided beyond chance: "weak to shrinking".

    Beyond chance at 0.5 %, since a suspect has about ten components.
    """
    two_sided = set()
    for key in {key for suspect in result.suspects.values() for key in suspect.changes}:
        samples = [suspect.changes[key] for suspect in result.suspects.values() if key in suspect.changes]
        if any(s.below for s in samples) and any(s.above for s in samples):
            two_sided.add(key)
    lines = []
    for suspect in result.suspects.values():
        found = []
        for key, sample in suspect.changes.items():
            most, sign = max((sample.below, "below"), (sample.above, "above"))
            share = most / max(1, sample.seen)
            if key in two_sided and share >= 0.58 and wilson(most, sample.seen, z=2.81)[0] > 0.5:
                name, unit = words.split_unit(key)
                text = {"name": name, "sign": sign, "share": words.percent(share, 0)}
                found.append((most / sample.seen, text | {"median": words.signed(sample.quartiles()[1], unit)}))
        if suspect.found:
            lines.append((suspect.name, [text for _, text in sorted(found, key=lambda item: -item[0])[:3]]))
    return lines
