"""A page taken apart, for tests that read a report as text."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

Element = tuple[str, dict[str, str], list[str]]  # tag, attributes, all text inside
VOID = {"meta", "img", "br", "hr", "rect", "line", "path", "link", "input"}


def says(element: Element) -> str:
    """What an element says, with spaces made plain."""
    return " ".join("".join(element[2]).split())


class Page(HTMLParser):
    """The elements of a page in order; fails on one that is not closed."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.elements: list[Element] = []
        self.ends: dict[int, int] = {}
        self.open: list[int] = []
        self.feed(file.read_text("utf-8"))
        self.close()
        assert not self.open, "every element is closed"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {key: value or "" for key, value in attrs}, []))
        if tag not in VOID:
            self.open.append(len(self.elements) - 1)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            place = self.open.pop()
            assert self.elements[place][0] == tag
            self.ends[place] = len(self.elements)

    def handle_data(self, data: str) -> None:
        for place in self.open:
            self.elements[place][2].append(data)

    def find(self, tag: str, **wanted: str) -> list[int]:
        """Where such elements are; `class_` and `data_suspect` stand for names that Python cannot say."""
        names = {key: key.rstrip("_").replace("_", "-") for key in wanted}
        return [
            place
            for place, (name, attributes, _) in enumerate(self.elements)
            if name == tag and all(attributes.get(names[key]) == value for key, value in wanted.items())
        ]

    def all(self, tag: str, **wanted: str) -> list[Element]:
        return [self.elements[place] for place in self.find(tag, **wanted)]

    def texts(self, tag: str, **wanted: str) -> list[str]:
        return [says(element) for element in self.all(tag, **wanted)]

    def inside(self, place: int, tag: str) -> list[Element]:
        """The elements of a kind within the one at this place."""
        return [element for element in self.elements[place + 1 : self.ends[place]] if element[0] == tag]

    def cells(self, suspect: str) -> list[str]:
        """The numbers in a suspect's line of the table of results."""
        return [says(cell) for cell in self.inside(self.find("tr", data_suspect=suspect)[0], "td")]
