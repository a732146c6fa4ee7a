"""Recipes as they are declared: what they name is there, and to look one up costs nothing."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import fields

import pytest

from foible.errors import UserError
from foible.runs.recipe import OLD_NAMES, RECIPES, Recipe, find_recipe, load, recipe_called, recipe_of


@pytest.mark.parametrize("name", RECIPES)
def test_everything_that_a_recipe_names_is_there(name: str) -> None:
    recipe = recipe_called(name)
    assert recipe.name == name
    named = {field.name: getattr(recipe, field.name) for field in fields(Recipe)}
    functions = [value for value in named.values() if isinstance(value, str) and value.startswith("foible.")]
    assert len(functions) > 8
    for function in functions:
        assert callable(load(function)), function
    assert set(recipe.parts) <= {field.name for field in fields(recipe.config)}


def test_a_recipe_is_looked_up_and_its_summary_read_without_torch() -> None:
    code = """
import sys
from foible.runs.recipe import RECIPES, load, recipe_called
for recipe in map(recipe_called, RECIPES):
    load(recipe.labels), load(recipe.summary), load(recipe.told)
    print(recipe.name, "torch" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:-1] == [f"{name} False" for name in RECIPES]


def test_a_recipe_goes_by_its_old_name_too() -> None:
    for old, new in OLD_NAMES.items():
        assert recipe_of({"recipe": old}) is recipe_called(new)
    assert recipe_of({"recipe": "somebody.py:MINE"}) is None
    assert recipe_of({}) is None


def test_an_unknown_recipe_is_named_beside_those_there_are() -> None:
    with pytest.raises(UserError, match=r"no recipe 'hnt'; did you mean 'hunt'.*distort, compare, rank"):
        find_recipe("hnt")
