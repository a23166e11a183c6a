"""GLocalFair: federated learning that is fair over everyone and inside each organisation.

The front door: `Federation.from_frame`, `train` → `Result`, `GLocalFairClassifier`, `audit`, `Bundle`. They are loaded
when they are first used, so that ``import glocalfair`` is quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from glocalfair.api import train as train
    from glocalfair.audit import Audit as Audit
    from glocalfair.bundle import Bundle as Bundle
    from glocalfair.callbacks import Callback as Callback
    from glocalfair.callbacks import MLflowCallback as MLflowCallback
    from glocalfair.callbacks import TensorBoardCallback as TensorBoardCallback
    from glocalfair.errors import GlocalfairError as GlocalfairError
    from glocalfair.estimator import GLocalFairClassifier as GLocalFairClassifier
    from glocalfair.result import Result as Result
    from glocalfair.types import Federation as Federation

_HOME = {
    "Audit": "audit",
    "Bundle": "bundle",
    "Callback": "callbacks",
    "Federation": "types",
    "GLocalFairClassifier": "estimator",
    "GlocalfairError": "errors",
    "MLflowCallback": "callbacks",
    "Result": "result",
    "TensorBoardCallback": "callbacks",
    "train": "api",
}

__all__ = ["__version__", *_HOME]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'glocalfair' has no attribute '{name}'")
    return getattr(importlib.import_module(f"glocalfair.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
