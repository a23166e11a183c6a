"""What becomes of memory that was freed."""

from __future__ import annotations

import numpy as np


def keep_freed() -> None:
    """Have this process keep up to 64 MB that it has freed, for the next round.

    glibc hands free memory back to the system beyond twice the largest block it has seen freed, up to 64 MB, and to
    fetch it again page by page takes as long as a round's arithmetic. So it is shown one such block, never touched.
    With another C library this does nothing.
    """
    np.empty((32 << 20) - 8192, dtype=np.uint8)
