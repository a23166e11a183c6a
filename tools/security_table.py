"""Fill the table of SECURITY.md with what each method discloses, and what a client that lies can do with it.

python tools/security_table.py            writes it
python tools/security_table.py --check    says whether it is up to date (exit code 1 if not)
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from glocalfair.methods.base import Sends
from glocalfair.registry import method, methods

PAGE = Path(__file__).parents[1] / "SECURITY.md"
MARKED = re.compile(r"(<!-- methods -->\n).*?(<!-- end -->)", re.DOTALL)

LEARNS: dict[Sends, str] = {
    "weights": "",
    "examples": "",
    "loss": "how well the model fits the client, round by round",
    "totals": "how many errors the model makes on its people (on a group, if it holds only one)",
    "group_counts": "how many people of each group it holds",
    "group_rates": "how the model treats each of its groups",
    "group_losses": "how well the model fits each of its groups",
    "gini": "one number about its model",
}
"""What the server knows of a client by each kind of disclosure, beside its model and its size."""

BREAKS = {
    "afl": "a high reported loss draws λ, and with it the whole average, to the liar in the next round",
    "ditto": "as FedAvg; the personal models of the others stay near their own data",
    "fairfed": "counts that look as unfair as the federation raise its weight, round after round; also shifts the "
    "federation's gap by which all others are judged",
    "fedavg": "its share of the examples, as in every method: a false model counts by n_k/n",
    "fedfb": "false losses by group turn the weights of groups and labels of everybody, within their bounds",
    "fedminmax": "a false loss of a group moves all weight to the rows of that group, everywhere",
    "fedprox": "as FedAvg",
    "gifair": "a false loss changes the learning rates of all others by up to the factor 1 ± c; its weight stays n_k/n",
    "glocalfair": "weights of equal magnitude have Gini 0 and raise its weight by e^{γG} at most (1.27 at γ = .6, "
    "G = .4); false totals shift the reference rates of all others: it may call all its people positive, "
    'and missed (measured in docs/robustness.md; not with `reference = "local"` or `"targets"`)',
    "glocalfair-paper": "weights of equal magnitude have Gini 0 and raise its weight by e^{γG} at most",
    "qffl": "a high reported loss raises its weight by (F/F̄)^q, without bound for large q; a long step slows "
    "everybody down",
    "reweighing": "as FedAvg",
}
"""What a client gains by lying that FedAvg would not give it."""


def table() -> str:
    """Return a row for each registered method with its default settings."""
    lines = ["| method | the server learns, beside model and size | a client that lies can |", "|---|---|---|"]
    for name in methods():
        kinds = dict.fromkeys(disclosed.kind for disclosed in method(name).discloses())
        learnt = "; ".join(LEARNS[kind] for kind in kinds if LEARNS[kind]) or "nothing"
        lines.append(f"| `{name}` | {learnt} | {BREAKS[name]} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    before = PAGE.read_text("utf-8")
    after = MARKED.sub(lambda match: match[1] + table() + match[2], before)
    if "--check" in sys.argv[1:]:
        raise SystemExit(0 if before == after else f"{PAGE} is out of date: run python {sys.argv[0]}")
    PAGE.write_text(after, "utf-8")
