"""Rank a pool: unlabelled images, by how clearly a suspect dissents from its peers (paper 1, Sec. 2). Declared here."""

from foible.recipes.config import RankConfig
from foible.runs.recipe import Recipe

RANK = Recipe(
    "rank",
    RankConfig,
    doing="Ranking",
    counted="images",
    read="foible.recipes.rank.recipe:read_options",
    parts=("realism",),
    make=lambda *_: {},
    networks="foible.recipes.rank.recipe:with_peers",
    check="foible.runs.defaults:check_views",
    # A pool's labels decide nothing. In the settings of a run they are `labels`, in a config `labelled`.
    labels=lambda settings: (settings["labels"] if "labels" in settings else settings["labelled"], False),
    settings="foible.recipes.rank.recipe:settings_of",
    first="foible.recipes.rank.units:Judging",
    work="foible.recipes.rank.units:Keeping",
    alone=True,
    finish="foible.recipes.rank.recipe:finish",
    replay="foible.recipes.replay:as_it_is",
    summary="foible.recipes.rank.summary:read_summary",
    told="foible.cli.rank:print_ranking",
    page="foible.report.pages.rank:render",
    papers=("baluja2015virtues", "wilson1927probable"),
)
