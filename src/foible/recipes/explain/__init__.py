"""Explain: what would have mended a mistake, drawn by a generator (paper 2). Declared here."""

from foible.recipes.config import ExplainConfig
from foible.runs.recipe import Recipe

ALONE = "reconstruction"  # tag: what the generator makes of the image is given the class already, unshifted

EXPLAIN = Recipe(
    "explain",
    ExplainConfig,
    doing="Explaining",
    counted="images",
    read="foible.recipes.explain.parts:read_options",
    parts=("space", "objective", "search"),
    networks="foible.recipes.explain.parts:suspect_first",
    check="foible.recipes.explain.units:check_task",
    seeds="foible.recipes.explain.units:images_of",
    settings="foible.recipes.explain.units:settings_of",
    work="foible.recipes.explain.units:Explaining",
    finish="foible.recipes.explain.control:drive",
    summary="foible.recipes.explain.summary:summarise",
    told="foible.cli.explain:print_explained",
    page="foible.report.pages.explain:render",
    papers=("anonymous2018explaining", "wilson1927probable"),
)
