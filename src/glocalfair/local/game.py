"""The in-round game of the paper: the θ-player trains on proxies, the λ-player sees the true rates.

A `Game` says what is played; `Players` plays it for a cohort inside the trainer's loop. Violations are estimated on
minibatches with the client's known group sizes as denominators, which is unbiased even when a group is rare, and
averaged over a window of steps: λ ≥ 0 turns noise into pressure, because it can go up but not below 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch

from glocalfair.local import dual
from glocalfair.local.constraints import Compiled, Constraint, compile_constraints
from glocalfair.local.iterates import choose
from glocalfair.types import Attribute, Floats, Ints, Value

if TYPE_CHECKING:
    from glocalfair.local.network import Network
    from glocalfair.local.trainer import Rows


@dataclass(frozen=True, eq=False)
class Game:
    """What a client plays in one stage.

    Attributes
    ----------
    constraints, attributes
        What to hold, for whom.
    references
        Rates that groups may deviate from; None for the client's own overall rates.
    solver
        ``"lagrangian"`` (Algorithm 1) or ``"proxy_lagrangian"`` (Theorem 1, swap regret).
    update
        Of the proxy-Lagrangian's matrix: ``"multiplicative"`` or ``"additive"``.
    proxy
        What the θ-player differentiates: ``"sigmoid"`` (the paper) or ``"hinge"`` (a convex upper bound).
    dual_lr
        η_λ.
    window
        Over how many steps (exponentially) the λ-player averages what it sees; 1 for the minibatch alone.
    snapshots
        How many iterates are kept as candidates, evenly over the stage; the start is always one more.
    iterate
        ``"best"``, ``"tfco"``, ``"last"`` or ``"random"`` (θ̄ of Theorem 1): see `glocalfair.local.iterates`.
    tolerance
        Violation up to which an iterate counts as feasible.
    theta_radius, dual_radius
        Radii of the projections Π_Θ (around the origin) and Π_Λ; None for none.
    shrinkage, clip
        κ and the limit of an example's coefficient, against the noise of tiny groups.
    """

    constraints: tuple[Constraint, ...]
    attributes: tuple[Attribute, ...]
    references: Mapping[str, float] | None = None
    solver: Literal["lagrangian", "proxy_lagrangian"] = "lagrangian"
    update: Literal["multiplicative", "additive"] = "multiplicative"
    proxy: Literal["sigmoid", "hinge"] = "sigmoid"
    dual_lr: float = 0.05
    window: int = 50
    snapshots: int = 4
    iterate: Literal["best", "tfco", "last", "random"] = "best"
    tolerance: float = 0.0
    theta_radius: float | None = None
    dual_radius: float | None = None
    shrinkage: float = 0.0
    clip: float | None = None


class Players:
    """A cohort's games. All clients share the settings of the first; constraints and references are their own."""

    def __init__(
        self,
        games: Sequence[Game],
        network: Network,
        rows: Rows,
        train: Sequence[Ints],
        validation: Sequence[Ints],
        steps: Ints,
        generators: Sequence[np.random.Generator] | None = None,
    ) -> None:
        self.games, self.game, self.network, self.rows = list(games), games[0], network, rows
        # Only a random iterate is drawn.
        self.generators: Sequence[np.random.Generator | None] = generators or [None] * len(games)
        dtype = rows.y.dtype
        # A client too small for a validation part judges its iterates on its training part.
        held_out = [v if len(v) else t for t, v in zip(train, validation, strict=True)]
        self.compiled = self._compile(train)
        self.checks = self._compile(held_out)
        self.coefficient, self.offset = _stack(self.compiled, dtype)
        self.check_coefficient, self.check_offset = _stack(self.checks, dtype)
        self.size = torch.tensor([len(r) for r in train], dtype=dtype).unsqueeze(1)
        self.held_out = _padded(held_out)
        clients, m = self.offset.shape
        self.additive = self.game.update == "additive"
        self.matrix = dual.initial_matrix(clients, m, self.additive, dtype)
        self.multiplier = torch.zeros(clients, m, dtype=dtype)
        # What belongs to those who still train, the first ones: with an axis more, as products want it.
        seen = torch.zeros(clients, 1, self.coefficient.shape[2], dtype=dtype)
        self._playing: tuple[torch.Tensor, ...] = (
            self.coefficient, self.coefficient.mT, self.offset.unsqueeze(1), seen, self.multiplier.unsqueeze(1),
        )  # fmt: skip
        self.steps = 0
        # Marks follow each client's own steps, so that it keeps the same iterates whoever trains beside it. Clients
        # are sorted by their steps, so those who are marked together stand side by side.
        assert (np.diff(steps) <= 0).all(), steps
        self.marks: dict[int, list[tuple[int, slice]]] = {}
        self.another = np.ones((self.game.snapshots + 1, clients), dtype=bool)
        """Where a candidate is another model than the one before: with fewer steps than candidates some are not."""
        before = np.full(clients, -1)
        for slot in range(1, self.game.snapshots + 1):
            last = -(-slot * steps // self.game.snapshots) - 1
            self.another[slot], before = last != before, last
            for step, first, count in zip(*np.unique(-last, return_index=True, return_counts=True), strict=True):
                self.marks.setdefault(-int(step), []).append((slot, slice(int(first), int(first + count))))
        self.thetas: list[torch.Tensor] = []
        self.objective = torch.ones(clients, dtype=dtype)
        self.objectives = np.ones((self.game.snapshots + 1, clients))
        self.violations = np.zeros((self.game.snapshots + 1, clients, m))
        self.chosen: list[int] = []

    def _compile(self, rows: Sequence[Ints]) -> list[Compiled]:
        """Compile each client's constraints for some of its rows: those with the same constraints together."""
        numbers = torch.as_tensor(np.concatenate(rows), device=self.rows.cells.device)
        cells = self.rows.cells.index_select(0, numbers).cpu().numpy()
        assert all(map(len, rows))
        starts = np.cumsum([0, *map(len, rows[:-1])])
        counted = np.add.reduceat(cells, starts, axis=0, dtype=np.float64).reshape(len(rows), 2, -1)
        alike: dict[tuple[tuple[Constraint, ...], bool], list[int]] = {}
        for k, game in enumerate(self.games):
            alike.setdefault((tuple(game.constraints), game.references is None), []).append(k)
        result: dict[int, Compiled] = {}
        for (constraints, local), members in alike.items():
            given = [self.games[k].references or {} for k in members]
            references = None if local else {rate: np.array([each[rate] for each in given]) for rate in given[0]}
            found = compile_constraints(
                constraints, counted[members], self.game.attributes, references, self.game.shrinkage
            )
            result |= {k: found.of(i) for i, k in enumerate(members)}
        return [result[k] for k in range(len(rows))]

    def start(self, theta: torch.Tensor, extra: torch.Tensor) -> None:
        """Take the model before the first constrained step as the first candidate."""
        self.thetas = [torch.cat([theta, extra], 1) for _ in range(self.game.snapshots + 1)]

    def play(
        self, slope: torch.Tensor, logits: torch.Tensor, probability: torch.Tensor, cells: torch.Tensor
    ) -> torch.Tensor:
        """Return d loss / d logits with the constraints' part and move λ; both players use the same iterate.

        `cells` are those of `Rows.cells` times the client's size over the size of the batch, 0 on padding:
        ``[clients, batch, cells]``. `slope` is changed.
        """
        if self._playing[0].shape[0] != cells.shape[0]:
            self._playing = tuple(each[: cells.shape[0]] for each in self._playing)
        coefficient, transposed, offset, seen, multiplier = self._playing
        # 1 for who is accepted; a comparison, which gives truth values first, takes twice as long.
        accepted = logits.sign().clamp_(min=0).unsqueeze(1)
        correction = self._smooth(seen, torch.bmm(accepted, cells))
        violation = torch.baddbmm(offset, seen, transposed, alpha=correction)
        objective: torch.Tensor | None = None
        if self.game.solver != "lagrangian":
            objective, multiplier = dual.stationary(self.matrix[: len(cells)]).unsqueeze(1).tensor_split([1], 2)
        if self.game.proxy == "sigmoid":
            tilt = torch.bmm(cells, torch.bmm(multiplier, coefficient).mT).squeeze(2)
            if self.game.clip is not None:
                everybody = cells.unflatten(2, (2, -1))[..., 0].sum(2)
                limit = everybody * (self.game.clip / self.size[: len(cells)])
                tilt = torch.maximum(torch.minimum(tilt, limit), -limit)
            # tilt · p · (1 − p)
            extra: torch.Tensor = torch.ops.aten.sigmoid_backward.default(tilt, probability)
        else:
            each = torch.bmm(coefficient, cells.mT)
            up = torch.bmm(multiplier, each.clamp(min=0)).squeeze(1)
            down = torch.bmm(multiplier, each.clamp(max=0)).squeeze(1)
            extra = up * (logits > -1) + down * (logits < 1)
        if objective is None:
            multiplier.copy_(dual.ascend(multiplier, violation, self.game.dual_lr, self.game.dual_radius))
            return slope.add_(extra)
        objective = objective.squeeze(1)
        self._swap(violation.squeeze(1), objective, multiplier.squeeze(1))
        return slope.mul_(objective).add_(extra)

    def _smooth(self, seen: torch.Tensor, table: torch.Tensor) -> float:
        """Average what the λ-player sees; return the correction for the start at 0: the first step sees its own batch.

        A violation is the same function of a mean table as of each, so tables are averaged.
        """
        self.steps += 1
        forget = 1 - 2 / (self.game.window + 1)
        seen.lerp_(table, 1 - forget)
        return float(1 / (1 - forget**self.steps))

    def _swap(self, violation: torch.Tensor, objective: torch.Tensor, multiplier: torch.Tensor) -> None:
        """Move the matrix of the proxy-Lagrangian."""
        active = len(violation)
        self.objective[:active] = objective[:, 0]
        # λ of the Lagrangian; where all weight is on the constraints it has no finite value.
        self.multiplier[:active] = multiplier / objective.clamp(min=1e-12)
        self.matrix[:active] = dual.swap_step(
            self.matrix[:active],
            torch.cat([objective, multiplier], 1),
            violation,
            self.game.dual_lr,
            self.game.update,
        )

    def observe(self, step: int, theta: torch.Tensor, extra: torch.Tensor, active: int) -> None:
        """Project the iterate on Π_Θ and keep it as a candidate at the marked steps."""
        if self.game.theta_radius is not None:
            norm = theta[:active].norm(dim=1, keepdim=True)
            theta[:active] *= (self.game.theta_radius / norm).clamp(max=1)
        for slot, who in self.marks.get(step, ()):
            kept = self.thetas[slot][who]
            kept[:, : theta.shape[1]] = theta[who]
            kept[:, theta.shape[1] :] = extra[who]
            self.objectives[slot, who] = self.objective[who].cpu().numpy()

    def _judge(self) -> Floats:
        """Measure all candidates on their clients' held-out rows; return the losses ``[candidates, clients]``."""
        losses = np.zeros(self.objectives.shape)
        # Rates that are equal must not differ by an error of arithmetic: it would decide between a client's iterates.
        digits = 12 if self.rows.y.dtype == torch.float64 else 6
        for who, rows, weight in self.held_out:
            held = torch.as_tensor(weight, dtype=self.rows.y.dtype)
            numbers = torch.as_tensor(rows)
            x, y = self.rows.inputs(numbers), self.rows.y[numbers]
            cells = self.rows.cells.index_select(0, numbers.flatten()).view(*numbers.shape, -1)
            logits = torch.stack(self._shown(who, x))
            loss = held * (torch.nn.functional.softplus(logits) - y * logits)
            losses[:, who] = loss.sum(2).cpu().numpy()
            present = ((held > 0) & (logits > 0)).to(logits.dtype)
            table = torch.bmm(present.transpose(0, 1), cells)
            coefficient, offset = self.check_coefficient[who], self.check_offset[who]
            violation = torch.baddbmm(offset.unsqueeze(1), table, coefficient.mT)
            self.violations[:, who] = np.round(violation.transpose(0, 1).cpu().double().numpy(), digits)
        return losses

    def _shown(self, who: Ints, x: torch.Tensor) -> list[torch.Tensor]:
        """Show these rows to each candidate, to equal ones once."""
        found: list[torch.Tensor] = []
        for theta, another in zip(self.thetas, self.another[:, who], strict=True):
            if another.all():
                found.append(self.network.logits(theta[who], x))
                continue
            found.append(found[-1].clone())
            if another.any():
                new = torch.as_tensor(another)
                found[-1][new] = self.network.logits(theta[who[another]], x[new])
        return found

    def choose(self, theta: torch.Tensor, extra: torch.Tensor) -> None:
        """Replace each client's weights by its chosen iterate."""
        losses = self._judge()
        worst = np.maximum(self.violations, 0).max(2, initial=0.0)
        rule, tolerance = self.game.iterate, self.game.tolerance
        self.chosen = [
            choose(losses[:, k], worst[:, k], rule, tolerance, random, self.objectives[:, k])
            for k, random in enumerate(self.generators)
        ]
        for slot in set(self.chosen):
            who = np.flatnonzero(np.array(self.chosen) == slot)
            theta[who], extra[who] = self.thetas[slot][who].split([theta.shape[1], extra.shape[1]], 1)

    def outcomes(self) -> list[dict[str, Value]]:
        """Say for each client what was asked, what was reached on validation, and at which λ."""
        results: list[dict[str, Any]] = []
        for k, (compiled, check) in enumerate(zip(self.compiled, self.checks, strict=True)):
            m = len(compiled.names)
            reached = np.where(check.defined, self.violations[self.chosen[k], k, :m], np.nan)
            results.append(
                {
                    "names": list(compiled.names),
                    "tau": compiled.tau,
                    "violation": reached,
                    "multiplier": self.multiplier[k, :m].cpu().numpy().copy(),
                    "iterate": self.chosen[k],
                    "iterates": len(self.thetas),
                }
            )
        return results


def _padded(rows: Sequence[Ints]) -> list[tuple[Ints, Ints, Floats]]:
    """Put clients with similar numbers of rows side by side: who, their rows, and 1/(number of rows) or 0 on padding.

    Padding is a row of the client's own: what is not finite must not reach the others.
    """
    sizes = np.array([len(r) for r in rows])
    order = np.argsort(-sizes, kind="stable")
    parts: list[tuple[Ints, Ints, Floats]] = []
    while len(order):
        width = sizes[order[0]]
        many = int((2 * sizes[order] > width).sum())
        who, order = order[:many], order[many:]
        real = np.arange(width) < sizes[who, None]
        numbers = np.array([np.concatenate([rows[k], np.full(width - sizes[k], rows[k][0])]) for k in who])
        parts.append((who, numbers, real / sizes[who, None]))
    return parts


def _stack(compiled: Sequence[Compiled], dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Put the clients' constraints side by side; a shorter list is padded with constraints that always hold.

    Coefficients are ``[clients, constraints, cells]``, the cells of label 0 before those of label 1.
    """
    most = max(len(c.names) for c in compiled)
    coefficient = np.zeros((len(compiled), most, *compiled[0].coefficient.shape[1:]))
    offset = np.full((len(compiled), most), -1.0)
    for k, c in enumerate(compiled):
        coefficient[k, : len(c.names)] = c.coefficient
        offset[k, : len(c.names)] = c.offset
    return torch.as_tensor(coefficient, dtype=dtype).flatten(2), torch.as_tensor(offset, dtype=dtype)
