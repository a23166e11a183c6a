"""A model card (Markdown) from a run directory: data, method, constraints, what was reached, limits."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from glocalfair.bundle import NAME, Bundle
from glocalfair.config import Config
from glocalfair.privacy.words import guarantee
from glocalfair.registry import method as make_method
from glocalfair.report.text import at, constraints, figure, is_defined, label, plural, span
from glocalfair.runs import RunDirectory, read_json

_SHOWN = ("accuracy", "balanced_accuracy", "positive_rate", "eod", "dpd", "dp_dis")
_CONSTRAINTS = 12


def card(path: str | Path) -> str:
    """Return the card of a finished run.

    Parameters
    ----------
    path
        The run directory; its data are not needed.
    """
    directory = RunDirectory.open(Path(path))
    result, config, rounds = directory.load_result(), directory.load_config(), directory.load_rounds()
    bundle = Bundle.load(directory.path) if (directory.path / NAME).exists() else None
    holdings = None
    if directory.federation.exists():
        holdings = read_json(directory.federation)
    parts = [
        [f"# Model card: {_plain(directory.path.resolve().name)}", ""],
        _model(config, result, bundle),
        _data(config, result, bundle, holdings),
        _method(config, result),
        _constraints(rounds),
        _global(result["global"]),
        _local(result["local"]),
        _limits(result, bundle),
        _use(directory.path, bundle),
    ]
    return "\n".join(line for part in parts for line in part).rstrip() + "\n"


def _plain(text: object) -> str:
    """Keep names that come from data from being read as Markdown or HTML.

    >>> _plain("a|b <i>")
    'a\\\\|b &lt;i>'
    """
    escaped = " ".join(str(text).split()).replace("\\", "\\\\").replace("&", "&amp;").replace("<", "&lt;")
    return "".join(f"\\{c}" if c in "|*_`[]" else c for c in escaped)


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [f"| {' | '.join(header)} |", f"|{'|'.join('---' for _ in header)}|"]
    return [*lines, *(f"| {' | '.join(map(_plain, row))} |" for row in rows), ""]


def _model(config: Config, result: Mapping[str, Any], bundle: Bundle | None) -> list[str]:
    size = sum(tensor.size for tensor in bundle.tensors.values()) if bundle else None
    version = bundle.about.get("version") if bundle else None
    hidden = f", hidden layers {list(config.model.hidden)}" if config.model.name == "mlp" else ""
    lines = [f"- Model: {_plain(config.model.name)}{hidden}" + (f", {plural(size, 'weight')}" if size else "")]
    lines.append(f"- Trained with: {result['method']}, {plural(result['rounds'], 'round')}, seed {result['seed']}")
    return [*lines, *([f"- Written by glocalfair {_plain(version)}"] if version else []), ""]


def _data(
    config: Config, result: Mapping[str, Any], bundle: Bundle | None, holdings: Mapping[str, Any] | None
) -> list[str]:
    lines = ["## Data", ""]
    name = Path(str(config.data.get("path", ""))).name or config.data["name"]
    lines.append(f"- Source: {_plain(name)}")
    if bundle is not None and config.data["name"] == "frame":
        schema = bundle.schema
        lines.append(f"- Label: {_plain(schema.label)}; positive is “{_plain(schema.positive)}”")
    for attribute in result["counts"]["global"]["attributes"]:
        lines.append(f"- Sensitive: {_plain(attribute['name'])} ({_plain(', '.join(attribute['values']))})")
    if bundle is not None:
        lines.append(f"- Inputs: {len(bundle.schema.inputs)} columns, {len(bundle.encoder.names)} after encoding")
    lines += ["", *_holdings(config, holdings)]
    return lines


def _holdings(config: Config, holdings: Mapping[str, Any] | None) -> list[str]:
    if holdings is None:
        return []
    rows = [
        (name, f"{sum(parts):,}", *(f"{part:,}" for part in parts))
        for name, parts in zip(holdings["names"], holdings["parts"], strict=True)
    ]
    lines = [f"Who holds what, by '{_plain(config.partition.name)}':", ""]
    shown = [*rows[:20], rows[-1]] if len(rows) > 21 else rows
    lines += _table(("client", "rows", "train", "validation", "test"), shown)
    return [*lines, *([f"… and {len(rows) - 21} more clients", ""] if len(rows) > 21 else [])]


def _method(config: Config, result: Mapping[str, Any]) -> list[str]:
    settings = {k: v for k, v in config.method.items() if k != "name"}
    name, told = str(config.method["name"]), ["  - not known here: it is not a method of glocalfair"]
    about = f"- {_plain(name)}: a method of one's own"
    if ":" not in name:  # A card is written from files, which must not make us import what they name.
        method = make_method(name, settings)
        about = f"- {method.name}: {method.summary}" + (f" ({method.citation})" if method.citation else "")
        told = [f"  - {d.text}{' (once)' if d.once else ''}" for d in method.discloses()]
    private = [f"- Privacy of updates: {line}." for line in guarantee(result["privacy"])] if "privacy" in result else []
    t = config.train
    return [
        "## Method",
        "",
        about,
        f"- Settings: {_plain(json.dumps(settings)) if settings else 'defaults'}",
        f"- Training: {t.optimizer}, lr {t.lr:g}, {plural(t.epochs, 'epoch')} a round, batches of {t.batch_size}, "
        f"{100 * t.participation:.0f} % of the clients in a round",
        "- What leaves a client:",
        *told,
        *private,
        "",
    ]


def _constraints(rounds: Sequence[Mapping[str, Any]]) -> list[str]:
    last: dict[tuple[str, str], Mapping[str, Any]] = {}
    for record in rounds:
        for client, told in record.get("clients", {}).items():
            for constraint in constraints(told):
                last[client, str(constraint["name"])] = constraint
    lines = ["## Constraints", ""]
    if not last:
        return [*lines, "None: the method asks for no bound.", ""]
    defined = {key: c for key, c in last.items() if is_defined(c.get("violation"))}
    kept = sum(float(c["violation"]) <= 0 for c in defined.values())
    lines.append(
        f"{len(last)} constraints over all clients; in each client's last round {kept} of the {len(defined)} that can "
        "be measured were kept. A violation above 0 is what is missing to the bound τ, on the client's validation rows."
    )
    worst = sorted(defined.items(), key=lambda item: -float(item[1]["violation"]))[:_CONSTRAINTS]
    rows = [(*key, figure(c["tau"]), figure(c["violation"]), figure(c["multiplier"])) for key, c in worst]
    return [*lines, "", *_table(("client", "constraint", "τ", "violation", "λ"), rows)]


def _paths(part: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    for name in _SHOWN:
        value = part[name]
        nested = isinstance(value, Mapping) and "mean" not in value
        yield from ((name, attribute) for attribute in value) if nested else ((name,),)


def _global(part: Mapping[str, Any]) -> list[str]:
    rows = [
        (
            " ".join([label(path[0]), *path[1:]]),
            figure(at(part, path), "undefined"),
            span(at(part["intervals"], path)),
            figure(at(part["noise_floor"], path)),
            figure(at(part["excess"], path)),
        )
        for path in _paths(part)
    ]
    lines = ["## Over everyone", "", f"On {plural(part['examples'], 'test row')} that no client holds.", ""]
    lines += _table(("", "value", "95 % interval", "noise floor", "excess"), rows)
    for name, pair in part["worst_pair"].items():
        if pair:
            low, high = (_plain(group) for group in pair["groups"])
            lines.append(f"- {_plain(name)}: {pair['rate']} is {figure(pair['gap'])} lower for {low} than for {high}")
    return [*lines, ""]


def _local(part: Mapping[str, Any]) -> list[str]:
    rows = []
    for path in _paths(part):
        spread = at(part, path)
        mean = f"{figure(spread['mean'], 'undefined')} ± {figure(spread['std'])}"
        rows.append((" ".join([label(path[0]), *path[1:]]), mean, f"{spread['defined']} of {spread['clients']}"))
    lines = ["## Inside each organisation", "", "On each client's own test rows: mean ± spread over the clients.", ""]
    return [
        *lines,
        *_table(("", "mean ± std", "defined on"), rows),
        f"DIS (best − worst accuracy): {figure(part['dis'])}",
        "",
    ]


def _limits(result: Mapping[str, Any], bundle: Bundle | None) -> list[str]:
    overall, local = result["global"], result["local"]
    lines = ["## Limits", ""]
    if overall["constant"]:
        lines.append("- **The model has collapsed: it gives everybody the same answer.** Its gaps say nothing.")
    for name, value in overall["eod"].items():
        floor = overall["noise_floor"]["eod"][name]
        if is_defined(value) and is_defined(floor) and value <= floor:
            lines.append(f"- The {_plain(name)} gap (EOD) cannot be told from chance on a test set of this size.")
        elif not is_defined(value):
            lines.append(f"- EOD for {_plain(name)} is undefined: too few groups have positives and negatives.")
    for name, spread in local["eod"].items():
        if spread["defined"] < spread["clients"]:
            where = f"{spread['defined']} of {spread['clients']} clients"
            lines.append(f"- Local EOD for {_plain(name)} is defined on {where} only.")
    lines += [f"- {_plain(text)}" for text in result.get("data", {}).get("warnings", ())]
    lines.append("- Measured on data like the training data; other people, places or times need a new audit.")
    lines.append("- Fair in EOD does not mean fair in every sense: see DPD above, and ask the people concerned.")
    return [*lines, ""]


def _use(path: Path, bundle: Bundle | None) -> list[str]:
    if bundle is None:
        return []
    command = f"glocalfair predict {path / NAME} NEW.csv -o OUT.csv"
    return ["## Use", "", "```text", command, "```", ""]
