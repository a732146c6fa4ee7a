"""Who else errs? Distorted images of some networks shown to all of them: transfer as a tensor."""

from foible.transfer.tensor import (
    KINDS,
    SCHEMA,
    Source,
    amplify,
    from_findings,
    load,
    rms,
    save,
    select,
    transfer,
)

__all__ = [
    "KINDS",
    "SCHEMA",
    "Source",
    "amplify",
    "from_findings",
    "load",
    "rms",
    "save",
    "select",
    "transfer",
]
