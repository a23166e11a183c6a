"""Freed memory stays with the process, and old objects are left alone."""

import gc
import platform
import subprocess
import sys
import weakref

import pytest

from glocalfair.memory import old_objects_left_alone

CODE = """
import resource, sys
import numpy as np
from glocalfair.memory import keep_freed

if sys.argv[1] == "keep":
    keep_freed()
for turn in range(4):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    # Blocks of 3 MB: what glibc fetches from the system and hands back one by one.
    held = [np.ones(3 << 20, dtype=np.uint8) for _ in range(8)]
    del held
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries keep memory by rules of their own")
def test_a_second_round_fetches_no_memory() -> None:
    def faults(how: str) -> int:
        made = subprocess.run([sys.executable, "-c", CODE, how], check=True, capture_output=True, text=True)
        return int(made.stdout)

    assert faults("keep") < faults("give back") / 4


def test_old_objects_are_left_alone_and_given_back() -> None:
    class Cycle:
        """Garbage that only the collector finds."""

        def __init__(self) -> None:
            self.own = self

    old = Cycle()
    gone = weakref.ref(old)
    with old_objects_left_alone():
        del old
        young = weakref.ref(Cycle())
        with old_objects_left_alone():
            gc.collect()
        assert gone() is not None and gc.get_freeze_count() > 0, "a run within a run gives nothing back"
        assert young() is None, "what comes later is collected as ever"
    gc.collect()
    assert gone() is None and gc.get_freeze_count() == 0
