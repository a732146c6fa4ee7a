"""Worker processes that get ready while a command still loads what it needs itself."""

from __future__ import annotations


def soon(recipe: str, workers: int | None, device: str) -> None:
    """A command will run this recipe. Called before anything heavy is loaded."""
    from foible.processes import begin_workers
    from foible.runs.recipe import modules_of, recipe_called

    begin_workers(modules_of(recipe_called(recipe)), workers=workers, device=device)
