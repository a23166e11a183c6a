"""Where a model trains: the GPU that is there, or the CPU."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from glocalfair.errors import GlocalfairError, invalid


def device_for(name: str, pictures: bool) -> torch.device:
    """Return the device of that name; ``"auto"`` is a GPU for picture models if there is one.

    A small model on a table is faster on the CPU, where a whole cohort trains as one program.

    >>> device_for("cpu", True)
    device(type='cpu')
    """
    if name == "auto":
        return torch.device("cuda" if pictures and torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise invalid("run.device", "'auto', 'cpu', 'cuda' or 'cuda:N'", name) from error
    if device.type not in ("cpu", "cuda"):
        raise invalid("run.device", "'auto', 'cpu', 'cuda' or 'cuda:N'", name)
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise GlocalfairError(f"'run.device' is '{name}', but torch sees {torch.cuda.device_count()} GPUs. Use 'auto'.")
    return device


def on(device: torch.device) -> AbstractContextManager[Any]:
    """Make new tensors on a device; on the CPU, where they are made anyway, it costs nothing."""
    return nullcontext() if device.type == "cpu" else device
