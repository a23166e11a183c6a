"""GLocalFair: constrained training on the client, fairness-aware clustering on the server.

Client: a training stage under constraints on group rates (eq. 5), either by the paper's game inside the round or by a
dual that lives across rounds (`glocalfair.local.anchored`). Server: clients are clustered by the Gini coefficient of
their weights, and a cluster counts the more the lower its mean Gini coefficient is (eq. 17 and 18).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np

from glocalfair.aggregation.favour import favour
from glocalfair.aggregation.gini import inequalities
from glocalfair.errors import GlocalfairError, invalid, unknown
from glocalfair.local import anchored
from glocalfair.local.anchored import DualSettings
from glocalfair.local.constraints import CONSTRAINTS, Constraint
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
_COUNTED = np.array([[1.0, 0, -1], [0, 0, 1], [0, 1, 1], [0, 0, 0]])
_OF = np.array([[0.0, 0, 0], [1, 0, 1], [0, 0, 0], [0, 1, 1]])
"""Of what these rates are shares: false negatives, positives, false positives and negatives by rate."""
FADE, FORGOTTEN = 0.5, 60
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
        self._constraints({})
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

    @property
    def uses_received(self) -> bool:  # type: ignore[override]
        """Whether rates of the received model are asked for: not in a game among the client's own."""
        return self.dual == "persistent" or self.reference != "local"

    @cached_property
    def _needs_totals(self) -> bool:
        """Whether any client deviates from the federation's rates, so that all have to report theirs."""
        asked = [self._usual_constraints, *map(self._constraints_of, self.overrides)]
        deviates = any(constraint.mode == "deviation" for each in asked for constraint in each)
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

    def _references(self, broadcasts: Sequence[Broadcast], own: Floats, states: Sequence[ClientState]) -> Floats | None:
        """Return the rates to deviate from, of each client; None for their own.

        The federation's rates are known for the model that a client reported on last, not for the one it has just
        received. Comparing the new model with the old rates would read every common change as unfairness, and the
        dual would add it up. So the reference moves along with the client's own overall rate since then.
        """
        if self.reference == "local" or not (self._needs_totals or self.targets):
            return None
        rates = np.tile(np.asarray(self.targets, dtype=float), (len(own), 1))
        if self.reference == "federation":
            sent = np.array([broadcast.payload["reference"] for broadcast in broadcasts], dtype=float)
            rates = sent + own - np.array([state["overall"] for state in states])
        inside: Floats = np.fmin(np.fmax(rates, 0), 1)  # 0 where a rate is not known
        return inside

    def plan(self, broadcast: Broadcast, received: Received, state: ClientState) -> LocalPlan:
        """Train under the constraints; in the first round a federation reference is not known yet."""
        return self._planned([(broadcast, received, state)])[0]

    def plans(self, given: Sequence[tuple[Broadcast, Received, ClientState]]) -> list[LocalPlan]:
        """See `Method.plans`."""
        own = type(self).plan is not GLocalFair.plan  # a method that builds on this one
        return super().plans(given) if own else self._planned(given)

    def _planned(self, given: Sequence[tuple[Broadcast, Received, ClientState]]) -> list[LocalPlan]:
        """Plan for several clients: those with the same constraints are measured together."""
        result: list[LocalPlan] = [PLAIN] * len(given)
        alike: dict[tuple[tuple[Constraint, ...], bool], list[int]] = {}
        for i, (broadcast, received, state) in enumerate(given):
            constraints = self._constraints_of(received.data.name)
            known = not self._needs_totals or ("reference" in broadcast.payload and "overall" in state)
            known = known and received.round > self.warmup * received.rounds
            if not constraints or not received.data.attributes:
                continue
            if self.dual == "persistent":
                alike.setdefault((constraints, known), []).append(i)
            elif known:
                result[i] = (Stage(), Stage(game=self._game(constraints, *given[i]), epochs=self.game_epochs))
        for (constraints, known), members in alike.items():
            stages = self._anchored(constraints, known, *zip(*(given[i] for i in members), strict=True))
            for i, stage in zip(members, stages, strict=True):
                result[i] = (stage,)
        return result

    def _anchored(
        self,
        constraints: tuple[Constraint, ...],
        known: bool,
        broadcasts: Sequence[Broadcast],
        received: Sequence[Received],
        states: Sequence[ClientState],
    ) -> list[Stage]:
        """Move the dual of each client, if the rates to compare with are known, and train against it."""
        data = [each.data for each in received]
        asked = anchored.asked(constraints, data[0].attributes)
        counts = anchored.counted(data, [_given(each.logits) for each in received])
        totals = counts.totals
        overall = _rates(totals)
        none = np.zeros(asked.covered.shape)
        pressures = np.array([state.get("pressures", none) for state in states])
        violations = np.full_like(pressures, np.nan)
        dual = self._dual(received[0].rounds)
        if known:
            references = self._references(broadcasts, overall, states)
            rates = None if references is None else references[:, [RATES.index(rate) for rate in asked.rates]]
            pressures = anchored.ascend(asked, pressures, anchored.deviation(asked, counts, rates), dual)
            held_out = anchored.counted(*zip(*map(_held_out, received), strict=True))
            violations = anchored.violation(asked, anchored.deviation(asked, held_out, rates).value)
        tilts = anchored.coefficients(asked, pressures, counts, dual.clip, self.reference == "local")
        multipliers = anchored.multipliers(asked, pressures, counts)
        told = _told(asked.names, asked.limits, violations, multipliers)
        own = zip(tilts, pressures, totals, overall, told, strict=True)
        return [
            Stage(probability_coefficient=tilt, notes={"pressures": p, "totals": t, "overall": o, "constraints": table})
            for tilt, p, t, o, table in own
        ]

    def _dual(self, rounds: int) -> DualSettings:
        decay = min(0.2, (12 / max(rounds, 1)) ** 2) if self.dual_decay is None else self.dual_decay
        return DualSettings(self.dual_lr, decay, self.shrinkage, self.clip or np.inf)

    def _game(
        self, constraints: tuple[Constraint, ...], broadcast: Broadcast, received: Received, state: ClientState
    ) -> Game:
        references = None
        if self.reference != "local":
            rates = self._references([broadcast], _rates(received.totals)[None], [state])
            references = None if rates is None else dict(zip(RATES, rates[0].tolist(), strict=True))
        return Game(
            constraints,
            received.data.attributes,
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
        data, notes = received.data, plan[0].notes
        payload: dict[str, Value] = {}
        # Copies: what a client keeps must not keep what all had in this round.
        kept = {**state, "pressures": notes["pressures"].copy()} if "pressures" in notes else {**state}
        if self._needs_totals:
            known = "totals" in notes
            payload["totals"] = notes["totals"] if known else received.totals
            kept["overall"] = notes["overall"].copy() if known else _rates(received.totals)
        if self.gini_by == "client":
            payload["gini"], _ = self._inequality([trained.weights[-1]], received.weights, received.trainable)[0]
        update = ClientUpdate(data.name, trained.weights[-1], len(data), payload)
        told = notes.get("constraints", {})
        if trained.game:
            limits, *played = (_defined(trained.game[key]) for key in ("tau", "violation", "multiplier"))
            told = _table(trained.game["names"], limits, *played)
        return update, kept, {"constraints": told}

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
        # Of each client the number of its latest report (0: none), and the federation's rates at each; of those who
        # reported lately the totals. So a round takes no longer with many enrolled.
        kept: dict[str, Value] = {"reported": np.zeros(len(examples), np.int64), "rates": np.empty((0, 3))}
        return ServerState(weights, {**names, **kept, "recent": np.empty(0, np.int64), "totals": np.empty((0, 4))})

    def broadcast(self, state: ServerState, client: str, context: RoundContext) -> Broadcast:
        """Send the federation's rates as of this client's last report."""
        if not self._needs_totals:
            return Broadcast(state.weights)
        number = array(state.values, "reported")[place(state, client)]
        if number == 0:
            return Broadcast(state.weights)
        reference = array(state.values, "rates")[number - 1]
        known = all(rate == rate for rate in reference.tolist())  # not NaN; numpy takes long for three numbers
        return Broadcast(state.weights, {"reference": reference} if known else {})

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
            curves = np.round([curve for _, curve in measured], 4).tolist()
            told = {"lorenz": dict(zip(names, curves, strict=True))}
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
        missed, positives, accepted, negatives = array(update.payload, "totals").tolist()
        if missed > positives or accepted > negatives or positives + negatives != update.examples:
            return f"'totals' {[missed, positives, accepted, negatives]} do not fit {update.examples} examples"
        return None

    def next_state(
        self, state: ServerState, weights: Floats, updates: Sequence[ClientUpdate], context: RoundContext
    ) -> ServerState:
        """Keep totals of all who reported lately: the reference must not depend on who took part this round."""
        if not self._needs_totals:
            return ServerState(weights)
        rows, rates, recent = places(state, updates), array(state.values, "rates"), array(state.values, "recent")
        reported = array(state.values, "reported").copy()
        reported[rows] = number = len(rates) + 1
        # Absent clients' totals are of older models; they fade, so that a reference is of nearly one model.
        age = number - reported[recent]
        kept = (age > 0) & (age < FORGOTTEN)
        recent = np.concatenate([recent[kept], rows])
        totals = np.concatenate([FADE * array(state.values, "totals")[kept], column(updates, "totals")])
        # Column by column: a sum over rows of four numbers takes ten times as long.
        rates = np.concatenate([rates, _rates(np.array([[each.sum() for each in totals.T]]))])
        told = {"reported": reported, "rates": rates, "recent": recent, "totals": totals}
        return ServerState(weights, {**state.values, **told})


def _rates(totals: Floats) -> Floats:
    """Return FNR, FPR and positive rate of four totals, on the last axis; NaN where there is nothing to count."""
    numerator, denominator = totals @ _COUNTED, totals @ _OF
    rates: Floats = np.divide(numerator, denominator, out=np.full(numerator.shape, np.nan), where=denominator > 0)
    return rates


def _told(
    names: Sequence[str], limits: Sequence[float], violations: Floats, multipliers: Floats
) -> list[dict[str, Sequence[Any]]]:
    """Tell each client of its constraints; of a group that it does not hold there is nothing to tell, not even λ."""
    violation, multiplier = (each.reshape(len(each), -1) for each in (violations, multipliers))
    multiplier = np.where(np.isnan(violation) & (multiplier == 0), np.nan, multiplier)
    each = zip(_defined(violation), _defined(multiplier), strict=True)
    return [_table(names, limits, *own) for own in each]


def _table(
    names: Sequence[str], limits: Sequence[float], violation: list[Any], multiplier: list[Any]
) -> dict[str, Sequence[Any]]:
    """Tell of some constraints, column by column: requested τ, violation on validation data (above 0: violated), λ."""
    return {"name": names, "tau": limits, "violation": violation, "multiplier": multiplier}


def _defined(values: Floats) -> list[Any]:
    """Return numbers for a log, where None is undefined."""
    found: list[Any] = np.where(np.isnan(values), None, values).tolist()  # type: ignore[call-overload]
    return found


def _held_out(received: Received) -> tuple[ClientData, Floats]:
    """Return a client's validation part with the logits of the received model; nobody, if there is none."""
    data = received.data
    if received.validation is None or received.validation_logits is None:
        return replace(data, y=data.y[:0], groups=data.groups[:0]), np.empty(0)
    return received.validation, received.validation_logits


def _given(logits: Floats | None) -> Floats:
    assert logits is not None, "the engine measures what it received, as `uses_received` asks for"
    return logits


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
