"""The same methods across real organisations, over Flower.

Nothing here needs Flower until it is used; then the extra ``glocalfair[flower]`` must be installed.
"""

from __future__ import annotations

import importlib
from typing import Any

from glocalfair.errors import GlocalfairError

_PLACES = {
    "FairStrategy": "glocalfair.flower.strategy",
    "client_step": "glocalfair.flower.strategy",
    "client_app": "glocalfair.flower.apps",
    "server_app": "glocalfair.flower.apps",
}

__all__ = ["FairStrategy", "client_app", "client_step", "server_app"]


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    require_flower()
    return getattr(importlib.import_module(_PLACES[name]), name)


def require_flower() -> None:
    """Say what to install if Flower is missing."""
    try:
        import flwr  # noqa: F401
    except ImportError as error:
        raise GlocalfairError("This needs Flower. Install it with: pip install 'glocalfair[flower]'.") from error
