"""What clipping and noise on the weights do not cover, said before a run and not after it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from glocalfair.errors import GlocalfairError, invalid
from glocalfair.methods.base import ALWAYS, Method
from glocalfair.privacy.mechanism import refuse_statistics
from glocalfair.privacy.settings import PrivacyConfig


def uncovered(method: Method) -> tuple[str, ...]:
    """List what a method sends beside weights and number of examples: clipping and noise do not touch it."""
    known = {disclosure.key for disclosure in ALWAYS}
    return tuple(d.text for d in method.discloses() if d.key not in known)


def summary(settings: PrivacyConfig, method: Method, epsilon: float) -> dict[str, Any]:
    """Return what a result says about the privacy of updates; nothing if there was none."""
    if not settings.on:
        return {}
    return {"privacy": {**asdict(settings), "epsilon": epsilon, "without_noise": list(uncovered(method))}}


def check(settings: PrivacyConfig, method: Method, statistics: int, early_stopping: int = 0) -> None:
    """Raise if the guarantee of a run would not mean what it says.

    Parameters
    ----------
    settings
        The run's ``[privacy]``.
    method
        Its method.
    statistics
        How many numbers of the weight vector training changes that are no parameters.
    early_stopping
        ``train.early_stopping``.
    """
    if settings.on:
        refuse_statistics(statistics)
    if not settings.noisy:
        return
    sent = uncovered(method)
    if sent and settings.uncovered == "refuse":
        raise GlocalfairError(
            f"Noise on the weights does not cover what '{method.name}' sends beside them: {'; '.join(sent)}. Use a "
            "method or setting that sends nothing else ('glocalfair list methods'; for glocalfair method.reference = "
            "'targets'), or accept it with privacy.uncovered = 'send'."
        )
    if early_stopping:
        advice = "It looks at losses on the clients' validation rows, which have no noise."
        raise invalid("train.early_stopping", "0 when updates have noise", early_stopping, advice)
    if settings.observer == "outsider" and not _by_examples(method):
        advice = f"'{method.name}' weighs clients by what they send, so that the models tell who took part."
        raise invalid("privacy.observer", "'server' with this method", settings.observer, advice)


def _by_examples(method: Method) -> bool:
    kind = type(method)
    return kind.coefficients is Method.coefficients and kind.server_round is Method.server_round
