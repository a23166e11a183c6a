"""Privacy of updates: clipping and Gaussian noise on the client, and what it adds up to.

`PrivacyConfig` is the section ``[privacy]`` of an experiment; `privatise` is the one place where an update is changed,
after `Method.finish` and before anything leaves the client, on every engine; `check` refuses what the noise would not
cover; `spent` does the accounting.
"""

from __future__ import annotations

from glocalfair.privacy.accounting import epsilon, spent
from glocalfair.privacy.check import check, summary, uncovered
from glocalfair.privacy.mechanism import NoiseSource, privatise, secure_normal, secure_source, seeded_normal
from glocalfair.privacy.settings import PrivacyConfig

__all__ = [
    "NoiseSource",
    "PrivacyConfig",
    "check",
    "epsilon",
    "privatise",
    "secure_normal",
    "secure_source",
    "seeded_normal",
    "spent",
    "summary",
    "uncovered",
]
