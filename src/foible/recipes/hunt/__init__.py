"""Hunt: images that a suspect gets wrong while all its peers get them right (paper 1). Declared here."""

from foible.recipes.config import HuntConfig
from foible.runs.recipe import Recipe

HUNT = Recipe(
    "hunt",
    HuntConfig,
    doing="Hunting",
    counted="trials",
    read="foible.recipes.hunt.parts:read_options",
    parts=("space", "objective", "search", "realism"),
    networks="foible.recipes.seeds:chosen",
    fitted="foible.recipes.hunt.fitted:fitted",
    check="foible.recipes.hunt.check:check_task",
    seeds="foible.recipes.seeds:right_under_all",
    settings="foible.recipes.hunt.units:settings_of",
    work="foible.recipes.hunt.units:Searching",
    finish="foible.report.why:keep",
    papers=("baluja2015virtues", "wilson1927probable"),
)
