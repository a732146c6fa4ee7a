"""Tags that people gave to findings: kept beside the shards of a run, by finding. No shard is rewritten."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from os import PathLike
from pathlib import Path

from foible.disk import write_atomically
from foible.errors import UserError
from foible.findings.table import Findings
from foible.records import TEXT, check, is_text, read_json

TAGS = "tags.json"
_FORM = {"tags": {str: [TEXT]}}


def tags_of(run: str | PathLike[str] | Findings) -> dict[str, frozenset[str]]:
    """Tag to the findings that carry it; none where there is no such file, or where it is not ours."""
    try:
        kept = check(read_json(Path(run) / TAGS, ""), _FORM, TAGS)  # type: ignore[arg-type]
    except (OSError, TypeError, UserError):  # findings in memory, a Parquet file, a run without tags
        return {}
    return {tag: frozenset(ids) for tag, ids in kept["tags"].items()}


def tag(run: Path, ids: Iterable[str], name: str, *, off: bool = False) -> int:
    """Give findings a tag, or take it off; how many carry it then."""
    name = name.strip()
    if not name or len(name) > 60 or not name.isprintable() or not is_text(name):
        raise UserError(f"the tag is {name[:60]!r}: expected a word or two, at most 60 characters")
    if not run.is_dir():
        raise UserError(f"{str(run)!r} is no run folder: tags are kept beside the shards of a run")
    there = tags_of(run)
    carry = there.get(name, frozenset())
    carry = carry - {*ids} if off else carry | {*ids}
    made: dict[str, Collection[str]] = {**there, name: carry}
    content = {"tags": {tag: sorted(some) for tag, some in sorted(made.items()) if some}}
    write_atomically(run / TAGS, json.dumps(content, indent=1, ensure_ascii=False).encode())
    return len(carry)
