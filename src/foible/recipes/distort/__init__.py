"""Distort: the smallest change of an image that makes a network say another label (paper 3). Declared here."""

from foible.recipes.config import DistortConfig
from foible.runs.recipe import Recipe

DISTORT = Recipe(
    "distort",
    DistortConfig,
    doing="Distorting",
    counted="images",
    read="foible.recipes.distort.recipe:read_options",
    parts=("method",),
    make="foible.recipes.distort.recipe:make_parts",
    networks="foible.recipes.distort.units:source_first",
    match="foible.recipes.distort.units:match_source",
    check="foible.recipes.distort.recipe:check_task",
    seeds="foible.recipes.distort.units:images_of",
    settings="foible.recipes.distort.units:settings_of",
    work="foible.recipes.distort.units:Distorting",
    replay="foible.recipes.replay:distorted",
    summary="foible.recipes.distort.summary:summarise_distortions",
    told="foible.cli.distort:print_distortions",
    page="foible.report.pages.distort:render",
    papers=("szegedy2014intriguing", "wilson1927probable"),
)
