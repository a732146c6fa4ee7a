"""What every page shares: the templates, the look, and the limit on its size."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from importlib import resources
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined, Template
from markupsafe import Markup

from foible.errors import UserError
from foible.records import TEXT, check, parse_json
from foible.report import words
from foible.report.run import About, OpenRun

LIMIT = 8_000_000  # bytes of a report


def _text(name: str) -> str:
    return resources.files("foible.report").joinpath(name).read_text("utf-8")


def template(name: str) -> Template:
    """A template of this package, with the filters that all of them use. Whatever it is given is escaped."""
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, loader=FunctionLoader(_text)
    )
    environment.filters.update(number=words.number, percent=words.percent, compact=words.compact)
    environment.globals["count_word"] = words.count_word
    environment.globals["css"] = lambda file: Markup(_text(file))  # ours, not the user's
    return environment.get_template(name)


def fitted(draw: Callable[[int], str], count: int) -> str:
    """The page that `draw` makes with `count` cards, or with as many as the limit allows."""
    while True:
        page = draw(count)
        size = len(page.encode("utf-8", "replace"))
        if size <= LIMIT or not count:
            return page
        count = min(count - 1, int(0.99 * count * LIMIT / size))


def skeleton(source: OpenRun, about: About, made: Iterable[str], title: str | None, **own: Any) -> dict[str, Any]:
    """What every page says: of which run it is, whether that is finished, what it had to say, and its settings.

    made: texts of the column `versions`. own: what a page says besides, or in other words.
    """
    configs = about.configs or {}
    return {
        "title": title or f"Foible report: {source.name}",
        "run": source.name,
        "here": source.here,
        "unfinished": bool(source.unfinished),
        "again": "The same command",
        "clean": source.clean,
        "unread": source.unreadable,
        "notes": source.notes,
        "specs": source.specs,
        "settings": words.settings(configs),
        "config_json": settings_json(configs),
        "schema_version": about.schema_version,
        "versions": versions(made),
        **own,
    }


def versions(texts: Iterable[str]) -> list[str]:
    """What made the rows, in words: each text is the column `versions` of some row."""
    return sorted({_version(text) for text in texts})


def _version(text: str) -> str:
    try:
        made = check(parse_json(text, "versions"), {str: TEXT}, "versions")
    except UserError:
        return text
    return ", ".join(f"{key} {value}" for key, value in made.items())


def settings_json(configs: object) -> str:
    return json.dumps(configs, indent=2, sort_keys=True, ensure_ascii=False)
