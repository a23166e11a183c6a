"""GLocalFair: constrained training on the client, fairness-aware clustering on the server.

Client: a training stage under constraints on group rates (eq. 5), either by the paper's game inside the round or by a
dual that lives across rounds (`glocalfair.local.anchored`). Server: clients are clustered by the Gini coefficient of
their weights, and a cluster counts the more the lower its mean Gini coefficient is (eq. 17 and 18).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np

from glocalfair.aggregation.favour import favour
from glocalfair.aggregation.gini import inequalities
from glocalfair.errors import GlocalfairError, invalid, unknown
from glocalfair.local import anchored
from glocalfair.local.anchored import DualSettings
from glocalfair.local.constraints import CONSTRAINTS, Constraint, column_names
from glocalfair.local.game import Game
from glocalfair.methods.base import ALWAYS, PLAIN, Disclosure, Method
from glocalfair.methods.roster import array, column, place, places, roster
from glocalfair.types import (
    Broadcast,
    ClientData,
    ClientInfo,
    ClientState,
    ClientUpdate,
    Diagnostics,
    Floats,
    LocalPlan,
    Log,
    Received,
    RoundContext,
    ServerState,
    Stage,
    Trained,
    Value,
)

RATES = ("fnr", "fpr", "positive_rate")
FADE = 0.5
ONE_GROUP = "(on a client with one group they are that group's)"
OVERRIDABLE = ("constraints", "tau_fnr", "tau_fpr", "tau_positive_rate", "mode")


@dataclass(frozen=True)
class GLocalFair(Method):
    """The best default found: anchored constraints, a dual across rounds (see the docs for how it was found).

    Attributes
    ----------
    constraints
        Rates to constrain: any of ``"fnr"``, ``"fpr"``, ``"positive_rate"``; empty for none (the ablation
        "clustering only" of Table 4).
    tau_fnr, tau_fpr, tau_positive_rate
        Allowed deviation from the reference, or the limit itself when `mode` is ``"absolute"``.
    mode
        ``"deviation"`` (eq. 5) or ``"absolute"`` (a limit on each group's rate, Tables 6 and 7).
    protect
        Attributes to protect; empty for all.
    reference
        ``"local"`` (eq. 5: the client's own overall rates), ``"federation"`` (the federation's overall rates: each
        client adds four totals to its update), or ``"targets"`` (public `targets`: nothing is added).
    targets
        Public FNR, FPR and positive rate for ``reference = "targets"``; what a model of this task usually has.
    warmup
        Share of the rounds before the dual starts to move: the rates of an untrained model say nothing.
    average
        The final model is the mean of the global models of this last share of the rounds, which removes the
        oscillation of the game; 0 for the last model alone.
    dual
        ``"persistent"`` (λ moves once a round on the received model and is kept) or ``"game"`` (the paper: λ restarts
        at 0 and plays inside the round).
    dual_lr, dual_decay, shrinkage, clip
        How the persistent dual moves: see `glocalfair.local.anchored.DualSettings`. No `dual_decay` means
        (12/rounds)², at most .2: a short run needs a dual that settles within it. `shrinkage` and `clip` act in the
        game too; a clip of 0 is none.
    game_lr, solver, update, proxy, game_epochs, window, snapshots, iterate, tolerance, theta_radius, dual_radius
        The game inside the round: see `glocalfair.local.game.Game`.
    overrides
        Per client: any of constraints, tau_…, mode. A hospital that cares for FNR only: ``{"hospital": {"constraints":
        ["fnr"]}}``.
    gamma
        γ of eq. 18; 0 is FedAvg bit for bit (the ablation "constraints only").
    gini_of
        ``"weights"`` (the paper) or ``"update"``.
    gini_by
        Who computes it: ``"server"``, or ``"client"``, which sends the coefficient along. The server then needs no
        client's weights, only weighted sums of them (see the docs on private updates); the model is the same.
    gini_scale
        ``"raw"`` (the paper) or ``"standardised"`` over the round's participants.
    clusters
        Number of clusters; 0 for the elbow.
    cluster_mass
        ``"examples"`` (normalised eq. 18: clusters count by their data), ``"equal"`` (each cluster counts alike) or
        ``"literal"`` (no normaliser, as printed: γ is then a server step size).
    """

    name: ClassVar[str] = "glocalfair"
    summary: ClassVar[str] = "constrained local training + clustering by Gini; all attributes jointly"
    citation: ClassVar[str] = "GLocalFair, with anchored constraints and a persistent dual"
    attributes: ClassVar[Literal["none", "single", "joint"]] = "joint"
    uses_received: ClassVar[bool] = True

    constraints: tuple[str, ...] = ("fnr", "fpr")
    tau_fnr: float = 0.0
    tau_fpr: float = 0.0
    tau_positive_rate: float = 0.0
    mode: Literal["deviation", "absolute"] = "deviation"
    protect: tuple[str, ...] = ()
    reference: Literal["local", "federation", "targets"] = "federation"
    targets: tuple[float, ...] = ()
    dual: Literal["persistent", "game"] = "persistent"
    overrides: Mapping[str, Any] = field(default_factory=dict)

    dual_lr: float = 4.0
    dual_decay: float | None = None
    shrinkage: float = 5.0
    clip: float = 8.0
    warmup: float = 1 / 6
    average: float = 1 / 3

    solver: Literal["lagrangian", "proxy_lagrangian"] = "lagrangian"
    update: Literal["multiplicative", "additive"] = "multiplicative"
    proxy: Literal["sigmoid", "hinge"] = "sigmoid"
    game_lr: float = 0.05
    game_epochs: int = 1
    window: int = 50
    snapshots: int = 4
    iterate: Literal["best", "tfco", "last", "random"] = "best"
    tolerance: float = 0.0
    theta_radius: float | None = None
    dual_radius: float | None = None

    gamma: float = 0.6
    gini_of: Literal["weights", "update"] = "weights"
    gini_by: Literal["server", "client"] = "server"
    gini_scale: Literal["raw", "standardised"] = "raw"
    clusters: int = 0
    cluster_mass: Literal["examples", "equal", "literal"] = "examples"

    def __post_init__(self) -> None:
        self._constraints_of("")
        for client, values in self.overrides.items():
            self._check_override(client, values)
        if self.reference == "targets" and not (len(self.targets) == 3 and all(0 <= t <= 1 for t in self.targets)):
            raise invalid("method.targets", "three rates from 0 to 1: FNR, FPR, positive rate", list(self.targets))
        for name in ("gamma", "clusters", "dual_lr", "shrinkage", "clip", "game_lr", "game_epochs"):
            if not getattr(self, name) >= 0:
                raise invalid(f"method.{name}", "at least 0", getattr(self, name))
        for name in ("dual_decay", "warmup", "average"):
            if getattr(self, name) is not None and not 0 <= getattr(self, name) <= 1:
                raise invalid(f"method.{name}", "a share from 0 to 1", getattr(self, name))
        for name in ("window", "snapshots"):
            if getattr(self, name) < 1:
                raise invalid(f"method.{name}", "a whole number of at least 1", getattr(self, name))
        if self.dual == "persistent" and self.proxy != "sigmoid":
            raise GlocalfairError(
                "'method.proxy' must be 'sigmoid' with the persistent dual, whose plan is linear in it."
            )

    def _check_override(self, client: str, values: Any) -> None:
        where = f"method.overrides.{client}"
        if not isinstance(values, Mapping):
            raise invalid(where, "a table of keys and values", values)
        for key, value in values.items():
            if key not in OVERRIDABLE:
                raise unknown(f"override for client '{client}'", key, OVERRIDABLE)
            if key.startswith("tau_") and (isinstance(value, bool) or not isinstance(value, int | float)):
                raise invalid(f"{where}.{key}", "a number", value)
            if key == "constraints" and not isinstance(value, list | tuple):
                raise invalid(f"{where}.{key}", "a list", value)
        self._constraints_of(client)

    # ------------------------------------------------------------------------------------------ client

    def enrol(self, data: ClientData) -> ClientInfo:
        """Check that the attributes to protect exist; introduce yourself."""
        known = [attribute.name for attribute in data.attributes]
        for name in self.protect:
            if name not in known:
                raise unknown("attribute in method.protect", name, known)
        return super().enrol(data)

    @cached_property
    def _needs_totals(self) -> bool:
        """Whether any client deviates from the federation's rates, so that all have to report theirs."""
        everybody = ["", *self.overrides]
        deviates = any(c.mode == "deviation" for client in everybody for c in self._constraints_of(client))
        return self.reference == "federation" and deviates

    def _constraints_of(self, client: str) -> tuple[Constraint, ...]:
        """Return the constraints of a client: the federation's, with the client's own overrides."""
        return self._constraints(self.overrides[client]) if client in self.overrides else self._usual_constraints

    @cached_property
    def _usual_constraints(self) -> tuple[Constraint, ...]:
        return self._constraints({})

    def _constraints(self, own: Mapping[str, Any]) -> tuple[Constraint, ...]:
        chosen = own.get("constraints", self.constraints)
        mode = own.get("mode", self.mode)
        for rate in chosen:
            if rate not in CONSTRAINTS:
                raise unknown("constraint", rate, CONSTRAINTS)
        return tuple(
            CONSTRAINTS[rate](
                float(own.get(f"tau_{rate}", getattr(self, f"tau_{rate}"))), mode, tuple(self.protect) or None
            )
            for rate in chosen
        )

    def discloses(self) -> tuple[Disclosure, ...]:
        """See `Method.discloses`."""
        told: tuple[Disclosure, ...] = ALWAYS
        if self._needs_totals:
            text = "four totals of the received model: false negatives, positives, false positives, negatives"
            told = (*told, Disclosure("totals", "totals", f"{text} {ONE_GROUP}", shape=(4,)))
        if self.gini_by == "client":
            told = (*told, Disclosure("gini", "gini", f"the Gini coefficient of its {self.gini_of} after training"))
        return told

    def _references(self, broadcast: Broadcast, own: Floats, state: ClientState) -> Mapping[str, float] | None:
        """Return the rates to deviate from; None for the client's own.

        The federation's rates are known for the model that this client reported on last, not for the one it has just
        received. Comparing the new model with the old rates would read every common change as unfairness, and the
        dual would add it up. So the reference moves along with the client's own overall rate since then.
        """
        if self.reference == "local" or not (self._needs_totals or self.targets):
            return None
        rates = np.asarray(self.targets, dtype=float)
        if self.reference == "federation":
            rates = np.asarray(broadcast.payload["reference"], dtype=float) + own - np.asarray(state["overall"])
        return dict(zip(RATES, np.clip(np.nan_to_num(rates), 0, 1).tolist(), strict=True))

    def plan(self, broadcast: Broadcast, received: Received, state: ClientState) -> LocalPlan:
        """Train under the constraints; in the first round a federation reference is not known yet."""
        data = received.data
        constraints = self._constraints_of(data.name)
        known = not self._needs_totals or ("reference" in broadcast.payload and "overall" in state)
        known = known and received.round > self.warmup * received.rounds
        if not constraints or not data.attributes or not (known or self.dual == "persistent"):
            return PLAIN
        own = self._overall(received)
        references = self._references(broadcast, own, state) if known else None
        if self.dual == "game":
            return (Stage(), Stage(game=self._game(constraints, data, references), epochs=self.game_epochs))
        dual = self._dual(received.rounds)
        pressures = np.asarray(state.get("pressures", np.zeros((len(constraints), data.members.shape[1]))))
        if known:
            assert received.logits is not None
            measured = [self._measure(c, data, received.logits, references) for c in constraints]
            moves = zip(constraints, pressures, measured, strict=True)
            pressures = np.array([anchored.ascend(*each, dual) for each in moves])
        tilt = anchored.coefficients(
            constraints, pressures, data, dual.clip, moving_reference=self.reference == "local"
        )
        forces = zip(constraints, pressures, strict=True)
        notes = {
            "pressures": pressures,
            "violations": self._held_out(constraints, received, references, known),
            "multipliers": np.array([anchored.multipliers(c, pressure, data) for c, pressure in forces]),
        }
        return (Stage(probability_coefficient=tilt, notes=notes),)

    def _dual(self, rounds: int) -> DualSettings:
        decay = min(0.2, (12 / max(rounds, 1)) ** 2) if self.dual_decay is None else self.dual_decay
        return DualSettings(self.dual_lr, decay, self.shrinkage, self.clip or np.inf)

    def _measure(
        self,
        constraint: Constraint,
        data: ClientData,
        logits: Floats,
        references: Mapping[str, float] | None,
    ) -> anchored.Deviation:
        reference = None if references is None else references[constraint.rate]
        return anchored.deviation(constraint, data, logits, reference)

    def _held_out(
        self,
        constraints: Sequence[Constraint],
        received: Received,
        references: Mapping[str, float] | None,
        known: bool,
    ) -> Floats:
        """Return the received model's violations on validation data ``[constraints, columns]``."""
        data, logits = received.validation, received.validation_logits
        columns = len(column_names(received.data.attributes))
        if not known or data is None or logits is None:
            return np.full((len(constraints), columns), np.nan)
        return np.array([anchored.violation(c, self._measure(c, data, logits, references)) for c in constraints])

    def _overall(self, received: Received) -> Floats:
        """Return the client's own FNR, FPR and positive rate under the received model; NaN where undefined."""
        if received.logits is None:
            return np.full(3, np.nan)
        return _rates(received.totals)

    def _game(
        self, constraints: tuple[Constraint, ...], data: ClientData, references: Mapping[str, float] | None
    ) -> Game:
        return Game(
            constraints,
            data.attributes,
            references,
            solver=self.solver,
            update=self.update,
            proxy=self.proxy,
            dual_lr=self.game_lr,
            window=self.window,
            snapshots=self.snapshots,
            iterate=self.iterate,
            tolerance=self.tolerance,
            theta_radius=self.theta_radius,
            dual_radius=self.dual_radius,
            shrinkage=self.shrinkage,
            clip=self.clip or None,
        )

    def finish(
        self, plan: LocalPlan, trained: Trained, received: Received, state: ClientState
    ) -> tuple[ClientUpdate, ClientState, Diagnostics]:
        """Send the weights (and the totals); keep λ; tell the client what was asked and what was reached."""
        data = received.data
        payload: dict[str, Value] = {}
        if self._needs_totals:
            payload["totals"] = totals = received.totals
        if self.gini_by == "client":
            payload["gini"], _ = self._inequality([trained.weights[-1]], received.weights, received.trainable)[0]
        notes = plan[0].notes
        kept = {**state, **{key: notes[key] for key in notes if key == "pressures"}}
        if self._needs_totals:
            kept["overall"] = _rates(totals)
        update = ClientUpdate(data.name, trained.weights[-1], len(data), payload)
        return update, kept, {"constraints": self._told(plan, trained, data)}

    def _told(self, plan: LocalPlan, trained: Trained, data: ClientData) -> list[dict[str, Any]]:
        """List for each constraint: requested τ, violation on validation data (positive = violated), λ."""
        if trained.game:
            game: Mapping[str, Any] = trained.game
            rows = zip(game["names"], game["tau"], game["violation"], game["multiplier"], strict=True)
            return [
                {"name": name, "tau": float(tau), "violation": float(v), "multiplier": float(m)}
                for name, tau, v, m in rows
            ]
        notes: Mapping[str, Any] = plan[0].notes
        if "pressures" not in notes:
            return []
        told = []
        for constraint, reached, multipliers in zip(
            self._constraints_of(data.name), notes["violations"], notes["multipliers"], strict=True
        ):
            for (attribute, value), v, m in zip(column_names(data.attributes), reached, multipliers, strict=True):
                if np.isnan(v) and m == 0:
                    continue  # the client holds nobody of this group
                name = f"{constraint.rate}({attribute}={value})"
                told.append({"name": name, "tau": constraint.tau, "violation": float(v), "multiplier": float(m)})
        return told

    # ------------------------------------------------------------------------------------------ server

    def averaged(self, rounds: int) -> int:
        """See `Method.averaged`."""
        return max(1, round(self.average * rounds))

    def init(self, weights: Floats, infos: Mapping[str, ClientInfo]) -> ServerState:
        """Remember who there is, to keep each client's latest totals."""
        for client in self.overrides:
            if client not in infos:
                raise unknown("client in method.overrides", client, infos)
        if not self._needs_totals:
            return ServerState(weights)
        names, examples = roster(infos)
        nothing = np.zeros((len(examples), 4))
        return ServerState(weights, {**names, "totals": nothing, "reference": np.full((len(examples), 3), np.nan)})

    def broadcast(self, state: ServerState, client: str, context: RoundContext) -> Broadcast:
        """Send the federation's rates as of this client's last report."""
        if not self._needs_totals:
            return Broadcast(state.weights)
        reference = array(state.values, "reference")[place(state, client)]
        return Broadcast(state.weights, {} if np.isnan(reference).any() else {"reference": reference})

    def coefficients(
        self, state: ServerState, updates: Sequence[ClientUpdate], context: RoundContext
    ) -> tuple[Floats, Log]:
        """Weigh clients by d_k e^{−γ Ḡ} with Ḡ the mean Gini coefficient of their cluster (eq. 18, normalised)."""
        names, told = [u.client for u in updates], {}
        if self.gini_by == "client":
            # A Gini coefficient lies between 0 and 1: a client that invents one gains e^γ at most.
            values = np.clip(column(updates, "gini"), 0, 1)
        else:
            measured = self._inequality([u.weights for u in updates], state.weights, context.trainable)
            values = np.array([value for value, _ in measured])
            told = {"lorenz": {n: np.round(curve, 4).tolist() for n, (_, curve) in zip(names, measured, strict=True)}}
        examples = np.array([u.examples for u in updates], dtype=float)
        weights, labels = favour(
            values, examples, self.gamma, self.clusters or None, self.gini_scale, self.cluster_mass
        )
        return weights, {
            "gini": dict(zip(names, values.tolist(), strict=True)),
            "cluster": dict(zip(names, labels.tolist(), strict=True)),
            **told,
        }

    def _inequality(
        self, trained: Sequence[Floats], received: Floats | None, trainable: int | None
    ) -> list[tuple[float, Floats]]:
        """Return Gini coefficient and Lorenz curve of clients' models: the same on the client as on the server."""
        origin = None
        if self.gini_of == "update":
            assert received is not None
            origin = received[:trainable]
        return inequalities([weights[:trainable] for weights in trained], origin=origin)

    def combined(self, old: Floats, updates: Sequence[ClientUpdate], share: Floats, context: RoundContext) -> Floats:
        """See `Method.combined`; the literal form of eq. 18 takes steps that do not sum to 1."""
        if self.cluster_mass != "literal" or context.combining.combine != "mean":
            return super().combined(old, updates, share, context)
        moved = sum(c * (u.weights.astype(float) - old) for c, u in zip(share, updates, strict=True))
        weights: Floats = (old + moved).astype(old.dtype)
        return weights

    def contradiction(self, update: ClientUpdate) -> str | None:
        """Check that the four totals can be those of one table."""
        if not self._needs_totals:
            return None
        missed, positives, accepted, negatives = array(update.payload, "totals")
        if missed > positives or accepted > negatives or positives + negatives != update.examples:
            return f"'totals' {[missed, positives, accepted, negatives]} do not fit {update.examples} examples"
        return None

    def next_state(
        self, state: ServerState, weights: Floats, updates: Sequence[ClientUpdate], context: RoundContext
    ) -> ServerState:
        """Keep the latest totals of every client: the reference must not depend on who took part this round."""
        if not self._needs_totals:
            return ServerState(weights)
        rows = places(state, updates)
        totals, reference = array(state.values, "totals").copy(), array(state.values, "reference").copy()
        # Absent clients' totals are of older models; they fade, so that a reference is of nearly one model.
        totals *= FADE
        totals[rows] = column(updates, "totals")
        reference[rows] = _rates(totals.sum(0))
        return ServerState(weights, {**state.values, "totals": totals, "reference": reference})


def _rates(totals: Floats) -> Floats:
    """Return FNR, FPR and positive rate of four totals; NaN where there is nothing to count."""
    missed, positives, accepted, negatives = totals
    numerator = np.array([missed, accepted, positives - missed + accepted])
    denominator = np.array([positives, negatives, positives + negatives])
    rates: Floats = np.divide(numerator, denominator, out=np.full(3, np.nan), where=denominator > 0)
    return rates


@dataclass(frozen=True)
class GLocalFairPaper(GLocalFair):
    """GLocalFair as published, with the readings that the docs list: the game inside the round, eq. 5, γ = .6."""

    name: ClassVar[str] = "glocalfair-paper"
    summary: ClassVar[str] = "GLocalFair as published: game inside the round, local reference, Gini clusters"
    citation: ClassVar[str] = "GLocalFair"

    tau_fnr: float = 0.1
    tau_fpr: float = 0.08
    reference: Literal["local", "federation", "targets"] = "local"
    dual: Literal["persistent", "game"] = "game"
    shrinkage: float = 0.0
    clip: float = 0.0
    warmup: float = 0.0
    average: float = 0.0
