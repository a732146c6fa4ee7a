"""Write what the code as it is now gives on this machine into golden.json: `python tests/golden/record.py [FILE]`.

Records of other machines stay: where they differ in more than last bits, delete them, and say so in CHANGELOG.md.
"""

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
    others = json.loads(file.read_text("utf-8"))["records"] if file.exists() else []
    with tempfile.TemporaryDirectory() as scratch:
        made = {"machine": machine(), "runs": make_all(Path(scratch))}
    records = [made, *(one for one in others if one["machine"] != made["machine"])]
    file.write_text(json.dumps({"records": records}, indent=1) + "\n", "utf-8")
