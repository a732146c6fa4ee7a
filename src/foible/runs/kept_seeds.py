"""The seeds of a run, kept in its folder: a run that goes on need not judge them again."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from foible.disk import write_atomically
from foible.runs.task import Seeds, Task

FILE = "seeds.safetensors"


def key_of(task: Task, settings: dict[str, Any]) -> str:
    """What the seeds depend on: data, networks, and all that was asked for."""
    whole = json.dumps([settings, asdict(task.config)], sort_keys=True, default=str)
    return hashlib.sha256(whole.encode()).hexdigest()


def keep(folder: Path, key: str, seeds: Seeds) -> None:
    """Write them, where they are numbers of images and classes."""
    if not seeds.tensors or any(one.ndim != 1 or one.dtype != torch.int64 for one in seeds.tensors.values()):
        return
    told = json.dumps({"accuracy": seeds.accuracy, "unreadable": list(seeds.unreadable)})
    tensors = {name: one.contiguous() for name, one in seeds.tensors.items()}
    write_atomically(folder / FILE, save(tensors, {"key": key, "told": told}))


def kept(folder: Path, key: str, task: Task) -> Seeds | None:
    """Those that were kept for just this; None where there are none, or the file is damaged or not ours."""
    most = {"aims": len(task.basket.classes)}
    try:
        with safe_open(str(folder / FILE), framework="pt") as file:
            about = file.metadata() or {}
            if about.get("key") != key:
                return None
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (it is no dict)
        told = json.loads(about["told"])
        accuracy, unreadable = told["accuracy"], [str(line) for line in told["unreadable"]]
    except (OSError, SafetensorError, KeyError, TypeError, ValueError):
        return None
    for name, one in tensors.items():
        if one.ndim != 1 or one.dtype != torch.int64 or not len(one):
            return None
        if int(one.min()) < 0 or int(one.max()) >= most.get(name, len(task.matched.data)):
            return None
    return Seeds(tensors, accuracy, unreadable)
