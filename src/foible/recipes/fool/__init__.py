"""Fool: images that mean nothing to people and everything to a network (paper 5). Declared here."""

from foible.recipes.config import FoolConfig
from foible.runs.recipe import Recipe

FOOL = Recipe(
    "fool",
    FoolConfig,
    doing="Fooling",
    counted="runs",
    read="foible.recipes.fool.units:read_options",
    parts=("encoding", "objective"),
    networks="foible.runs.defaults:with_suspects",
    check="foible.recipes.fool.units:check_task",
    settings="foible.recipes.fool.units:settings_of",
    work="foible.recipes.fool.units:Fooling",
    finish="foible.recipes.fool.units:tell_apart",
    replay="foible.recipes.fool.replay:redrawn",
    summary="foible.recipes.fool.summary:summarise",
    told="foible.cli.fool:print_fooled",
    page="foible.report.pages.fool:render",
    papers=("nguyen2015deep", "wilson1927probable"),
)
