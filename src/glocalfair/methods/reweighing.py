"""Local reweighing (Abay et al., 2020): each client makes label and group independent in its own data, then FedAvg."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from glocalfair.methods.groups import OneAttribute, group_codes, reweighing
from glocalfair.types import Broadcast, ClientState, LocalPlan, Received, Stage


@dataclass(frozen=True)
class Reweighing(OneAttribute):
    """Rows weigh W(a, y) = P_k(a)·P_k(y) / P_k(a, y) in the loss; the server averages by number of examples.

    Nothing about groups leaves the client. On a client with one group all weights are 1: plain FedAvg.
    """

    name: ClassVar[str] = "reweighing"
    summary: ClassVar[str] = "clients reweigh their own rows by group and label; sends nothing about groups"
    citation: ClassVar[str] = "Abay et al. 2020, after Kamiran and Calders 2012"

    def plan(self, broadcast: Broadcast, received: Received, state: ClientState) -> LocalPlan:
        """Client: one stage on weighted rows."""
        codes, groups = group_codes(received.data, self.attribute)
        return (Stage(sample_weight=reweighing(received.data.y, codes, groups)),)
