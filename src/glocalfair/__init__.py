"""GLocalFair: federated learning that is fair over everyone and inside each organisation."""

__version__ = "0.1.0"
