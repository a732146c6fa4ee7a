"""A study of no work, to test what is around studies; and a small task for hunts."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from small_tasks import Task, linear_task

from foible import studies
from foible.figures import new, save
from foible.studies.common import Result, Row


def _run(
    *, scale: str, data: str | None, out: Path, seed: int = 0, device: str = "auto", basket: str | None = None,
    quiet: bool = False, trials: int = 7, sizes: bool = False,
) -> Result:  # fmt: skip
    del device, basket, quiet
    figure, axes = new()
    axes[0, 0].plot([0, 1, 4, 9])
    axes[0, 0].set_title("squares")
    return Result(
        "toy",
        scale,
        {"data": data, "trials": trials, "sizes": sizes, "moves": {"degrees": 5.0, "pixels": 1.0}},
        seed,
        [
            Row("Table 9", "A: success, %", 63.0, 60.25, 50.0, 70.0, 1000),
            Row("Table 9", "A: a|b", None, None, n=0),
            Row("Trends", "slope", None, float("nan")),
        ],
        ["A note."],
        [save(figure, out, "toy")],
    )


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a study that takes no time."""
    module: Any = ModuleType("toy_study")
    module.run = _run
    monkeypatch.setitem(sys.modules, "toy_study", module)
    monkeypatch.setitem(studies.STUDIES, "toy", ("toy_study", "Nothing at all."))
    return "toy"


@pytest.fixture(scope="session")
def task(tmp_path_factory: pytest.TempPathFactory) -> Task:
    return linear_task(tmp_path_factory.mktemp("task"))
