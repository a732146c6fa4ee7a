"""What `import foible` offers: few names, all there, all documented, and nothing heavy until one is used."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import foible


def test_the_list_is_sorted_and_has_no_doubles() -> None:
    assert foible.__all__ == sorted(set(foible.__all__))


@pytest.mark.parametrize("name", foible.__all__)
def test_every_public_name_is_there_and_documented(name: str) -> None:
    thing = getattr(foible, name)
    assert not inspect.ismodule(thing), f"foible.{name} is a module: the name was meant for what is in it"
    assert getattr(foible, name) is thing, "a second look finds something else"
    assert name in dir(foible)
    if not name.startswith("__"):
        # A class inherits its parent's docstring: look at its own.
        own = vars(thing).get("__doc__") if inspect.isclass(thing) else thing.__doc__
        assert own, f"foible.{name} has no docstring"
        assert own.strip(), f"foible.{name} has an empty docstring"
        if inspect.isclass(thing):
            # What the dataclass decorator writes by itself says nothing.
            assert not own.startswith(f"{name}("), f"foible.{name} has no docstring of its own"


@pytest.mark.parametrize("name", [name for name in foible.__all__ if not name.startswith("__")])
def test_public_functions_are_typed(name: str) -> None:
    thing = getattr(foible, name)
    if inspect.isfunction(thing):
        missing = [
            parameter.name
            for parameter in inspect.signature(thing).parameters.values()
            if parameter.annotation is inspect.Parameter.empty
        ]
        assert not missing, f"foible.{name} does not say the types of {', '.join(missing)}"


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_thing"):
        foible.no_such_thing  # noqa: B018


def test_the_version_is_the_installed_one() -> None:
    from importlib.metadata import version

    assert foible.__version__ == version("foible")


def fresh(code: str) -> str:
    """What a fresh interpreter prints."""
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_import_foible_loads_nothing_heavy() -> None:
    heavy = "('torch', 'numpy', 'pyarrow', 'matplotlib', 'sklearn', 'PIL', 'rich')"
    assert fresh(f"import sys, foible; print([m for m in {heavy} if m in sys.modules])").strip() == "[]"


def test_names_stay_themselves_when_a_module_of_the_same_name_is_imported_first() -> None:
    code = """
import importlib, pkgutil, inspect, foible
for module in pkgutil.iter_modules(foible.__path__):
    if module.name in foible.__all__:
        importlib.import_module(f"foible.{module.name}")
print([name for name in foible.__all__ if inspect.ismodule(getattr(foible, name))])
"""
    assert fresh(code).strip() == "[]"


def test_star_import_gives_exactly_the_list() -> None:
    names = {}
    exec("from foible import *", names)
    assert sorted(set(names) - {"__builtins__"}) == foible.__all__


def test_every_file_that_is_not_python_ships_with_the_package() -> None:
    import tomllib

    root = Path(__file__).parents[1]
    settings = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))
    patterns = settings["tool"]["setuptools"]["package-data"]["foible"]
    package = root / "src" / "foible"
    shipped = {file for pattern in patterns for file in package.glob(pattern)}
    others = {file for file in package.rglob("*") if file.is_file() and file.suffix not in (".py", ".pyc")}
    assert others <= shipped, "add these to package-data in pyproject.toml"


def test_every_pin_satisfies_what_the_package_asks_for() -> None:
    import tomllib

    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    root = Path(__file__).parents[1]
    settings = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]
    lines = (line.partition("#")[0].strip() for line in (root / "constraints.txt").read_text("utf-8").splitlines())
    pins = dict(line.split("==") for line in lines if line)
    pinned = {canonicalize_name(name): version for name, version in pins.items()}
    # `zoo` is not installed by make: torchvision must be the one that was built for the torch at hand.
    extras = (needs for name, needs in settings["optional-dependencies"].items() if name != "zoo")
    for text in (*settings["dependencies"], *(text for extra in extras for text in extra)):
        needed = Requirement(text)
        version = pinned.get(canonicalize_name(needed.name))
        assert version, f"{needed.name} has no pin in constraints.txt"
        assert version in needed.specifier, f"{needed.name}: constraints.txt pins {version}, pyproject asks {text}"
