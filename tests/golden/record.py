"""Write golden.json from the code as it is now: `python tests/golden/record.py [FILE]`."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))

from golden_runs import machine, make_all

if __name__ == "__main__":
    torch.set_num_threads(1)
    file = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).with_name("golden.json")).resolve()
    with tempfile.TemporaryDirectory() as scratch:
        made = {"machine": machine(), "runs": make_all(Path(scratch))}
    file.write_text(json.dumps(made, indent=1) + "\n", "utf-8")
