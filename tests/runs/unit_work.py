"""Work for the engine's tests, in a module of its own: worker processes import it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import torch
from small_tasks import unit_table

from foible.errors import UserError
from foible.runs.local import Tick, Work
from foible.runs.spans import Span

WRONG = 21  # where the unit begins that goes wrong


def numbers(path: Path) -> Work:
    """Rows that depend on the lanes alone, and say how many threads torch has."""
    del path

    def work(span: Span, tick: Tick) -> pa.Table:
        tick(2)
        tick(1)
        product = torch.arange(9.0).view(3, 3) @ torch.full((3, 3), span.first / 7)
        rows = {
            "lane": list(range(span.first, span.end)),
            "value": product[0].tolist(),
            "threads": [torch.get_num_threads()] * 3,
        }
        return unit_table(rows)

    return work


def _failing(fail: Callable[[], object]) -> Callable[[Path], Work]:
    def prepare(path: Path) -> Work:
        good = numbers(path)

        def work(span: Span, tick: Tick) -> pa.Table:
            if span.first == WRONG:
                fail()
            return good(span, tick)

        return work

    return prepare


def _user_error() -> None:
    raise UserError("lane 21 is not to my liking")


def leaves_quietly(path: Path) -> Work:
    return _failing(lambda: os._exit(0))(path)


def raises_user_error(path: Path) -> Work:
    return _failing(_user_error)(path)


def raises_zero_division(path: Path) -> Work:
    return _failing(lambda: 1 / 0)(path)
