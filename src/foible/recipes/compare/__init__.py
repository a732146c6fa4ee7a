"""Compare: what did a new version of a network break, and what did it fix? Declared here."""

from collections.abc import Mapping
from typing import Any

from foible.recipes.config import CompareConfig
from foible.runs.recipe import Recipe

# A comparison borrows from paper 1 the mistakes that only one network makes, from Yan et al. the negative flips, and
# its tests from the others; without labels there are no flips to count.
_PAPERS = ("baluja2015virtues", "yan2021positive", "mcnemar1947note", "tango1998equivalence", "wilson1927probable")


def _labels(settings: Mapping[str, Any]) -> tuple[bool, bool]:
    """Of the settings of a run, or of a config."""
    labelled = settings["labelled"] if "labelled" in settings else not settings["unlabelled"]
    return labelled, labelled


COMPARE = Recipe(
    "compare",
    CompareConfig,
    doing="Comparing",
    counted="images",
    networks="foible.recipes.compare.recipe:two_versions",
    check="foible.runs.defaults:check_views",
    labels=_labels,
    settings="foible.recipes.compare.recipe:settings_of",
    work="foible.recipes.compare.units:Comparing",
    alone=True,
    finish="foible.recipes.compare.counts:finish",
    replay="foible.recipes.replay:as_it_is",
    summary="foible.recipes.compare.summary:summary_of",
    told="foible.cli.compare:print_comparison",
    page="foible.report.pages.compare:render",
    papers=lambda settings: _PAPERS if settings.get("labelled") is not False else _PAPERS[:1],
    frozen="places",
)
