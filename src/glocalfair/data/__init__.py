"""Data: datasets (one module each), who holds which rows, splits, and the encoded federation."""

from glocalfair.data.cells import attribute_cells
from glocalfair.data.encoder import Encoder
from glocalfair.data.entry import DatasetEntry
from glocalfair.data.federation import build
from glocalfair.data.holdings import Holdings, who_holds_what
from glocalfair.data.partition import PARTITIONS, PartitionSpec
from glocalfair.data.registry import build_options, datasets, load
from glocalfair.data.split import SplitSpec
from glocalfair.options import from_mapping

__all__ = [
    "PARTITIONS",
    "DatasetEntry",
    "Encoder",
    "Holdings",
    "PartitionSpec",
    "SplitSpec",
    "attribute_cells",
    "build",
    "build_options",
    "datasets",
    "from_mapping",
    "load",
    "who_holds_what",
]
