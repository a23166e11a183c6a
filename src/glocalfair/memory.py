"""What becomes of memory that was freed."""

from __future__ import annotations

import numpy as np


def keep_freed() -> None:
    """Have this process keep what it has freed for the next round, instead of giving it back and fetching it anew.

    glibc gives a large block back as soon as it is freed, and what lies free at the end of its heap beyond twice as
    much. What is large it learns from the largest block it has seen freed, up to 32 MB. To fetch memory again page by
    page takes as long as a round's arithmetic, so it is shown one such block, never touched. With another C library
    this does nothing.
    """
    np.empty((32 << 20) - 8192, dtype=np.uint8)
