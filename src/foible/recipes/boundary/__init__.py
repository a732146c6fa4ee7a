"""Boundary: images between two classes, along a line of codes (paper 4). Declared here."""

from foible.recipes.config import BoundaryConfig
from foible.runs.recipe import Recipe

BOUNDARY = Recipe(
    "boundary",
    BoundaryConfig,
    doing="Walking",
    counted="lines",
    read="foible.recipes.boundary.units:read_options",
    parts=("space",),
    make="foible.recipes.boundary.units:make_line",
    check="foible.recipes.boundary.units:check_task",
    seeds="foible.recipes.boundary.ends:ends_of",
    settings="foible.recipes.boundary.units:settings_of",
    work="foible.recipes.boundary.units:Walking",
    replay="foible.recipes.boundary.units:drawn_again",
    summary="foible.recipes.boundary.summary:summarise",
    told="foible.cli.boundary:print_boundary",
    page="foible.report.pages.boundary:render",
    papers=("vlaar2021examining", "wilson1927probable"),
    everybody=True,
)
