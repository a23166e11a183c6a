"""Step sizes of Lemma 1, and what its guarantee covers."""

from __future__ import annotations

import math
from dataclasses import dataclass

from glocalfair.errors import invalid

COVERS = (
    "The randomised classifier θ̄ (iterate = 'random' with the proxy-Lagrangian, multiplicative update) with convex "
    "proxies that bound the constraints from above (proxy = 'hinge'), a convex objective (a linear model), a compact Θ "
    "(theta_radius), plain SGD (momentum 0), a λ-player that sees each minibatch alone (window = 1) and every iterate "
    "a candidate (snapshots = T). Then, with probability 1 − δ: E f(θ̄) ≤ best f under the proxy constraints + "
    "(ε_θ + ε_λ)/λ̄₁, and every E g_i(θ̄) ≤ ε_λ/λ̄₁."
)
NOT_COVERED = (
    "Sigmoid proxies (neither convex nor an upper bound), networks with hidden layers (not convex), the Lagrangian "
    "solver, the best or last iterate (the guarantee is for a random one), and whatever averaging over clients and "
    "rounds does to the model afterwards."
)


@dataclass(frozen=True)
class Guarantee:
    """Step sizes and the accuracy they buy."""

    eta_theta: float
    eta_lambda: float
    epsilon_theta: float
    epsilon_lambda: float
    covers: str = COVERS
    does_not_cover: str = NOT_COVERED


def step_sizes(
    theta_bound: float, gradient_bound: float, violation_bound: float, constraints: int, delta: float, steps: int
) -> Guarantee:
    """Return the step sizes of Lemma 1 and its ε_θ, ε_λ.

    η_θ = B_Θ/(B_Δ̂ √(2T)), η_λ = √((m+1) ln(m+1) / (T B_Δ²)), ε_θ = 2 B_Θ B_Δ̂ √((1+16 ln(2/δ))/T),
    ε_λ = 2 B_Δ √(2(m+1) ln(m+1) (1+16 ln(2/δ))/T).

    Parameters
    ----------
    theta_bound
        B_Θ, the largest norm in Θ (`theta_radius`).
    gradient_bound
        B_Δ̂, the largest norm of a stochastic gradient of the θ-player.
    violation_bound
        B_Δ, the largest absolute violation that the λ-player can see (1 for rates and full batches).
    constraints
        m, the number of constraints.
    delta
        δ, the chance that the bound does not hold.
    steps
        T, the number of steps.

    Examples
    --------
    >>> found = step_sizes(theta_bound=10, gradient_bound=5, violation_bound=1, constraints=8, delta=0.05, steps=10_000)
    >>> round(found.eta_theta, 4), round(found.eta_lambda, 4)
    (0.0141, 0.0445)
    """
    positive = {
        "theta_bound": theta_bound,
        "gradient_bound": gradient_bound,
        "violation_bound": violation_bound,
        "constraints": constraints,
        "steps": steps,
    }
    for name, value in positive.items():
        if not value > 0:
            raise invalid(name, "above 0", value)
    if not 0 < delta < 1:
        raise invalid("delta", "between 0 and 1", delta)
    size = (constraints + 1) * math.log(constraints + 1)
    confidence = 1 + 16 * math.log(2 / delta)
    return Guarantee(
        eta_theta=theta_bound / (gradient_bound * math.sqrt(2 * steps)),
        eta_lambda=math.sqrt(size / (steps * violation_bound**2)),
        epsilon_theta=2 * theta_bound * gradient_bound * math.sqrt(confidence / steps),
        epsilon_lambda=2 * violation_bound * math.sqrt(2 * size * confidence / steps),
    )
