"""What the model of a run looks at: heat maps of a few test pictures, and region shares over many."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from glocalfair.data.cells import attribute_cells
from glocalfair.errors import GlocalfairError
from glocalfair.experiment import Experiment
from glocalfair.rng import generator
from glocalfair.runs import RunDirectory, jsonable, read_safetensors, write_atomically
from glocalfair.types import Federation, Floats, Ints
from glocalfair.vision.gradcam import gradcam, pick_layer, upsampled
from glocalfair.vision.regions import Regions, compare_groups, heat_shares, regions_for

FILE = "heat.json"
CHUNK = 64
SHOWN = 96
"""Least side of a picture in the PNG and the report."""

Pixels = npt.NDArray[np.uint8]


@dataclass(frozen=True, eq=False)
class Looks:
    """A finished run with pictures, ready to be looked into."""

    path: Path
    experiment: Experiment
    module: torch.nn.Module

    @classmethod
    def of(cls, path: Path, allow: Callable[[Any], None] = lambda config: None) -> Looks:
        """Open a run; `allow` may refuse its configuration."""
        directory = RunDirectory.open(path)
        if not directory.model.exists():
            raise GlocalfairError(f"The run in '{path}' is not finished. Continue it with --resume.")
        config = directory.load_config()
        allow(config)
        experiment = Experiment.prepare(config)
        if experiment.federation.x.ndim != 4:
            raise GlocalfairError(f"The run in '{path}' was trained on a table. Heat maps need pictures.")
        tensors, _ = read_safetensors(directory.model)
        layout = experiment.simulator.network.layout
        return cls(path, experiment, experiment.module(layout.join(tensors)).float())


def choose_rows(federations: Sequence[Federation], count: int, seed: int = 0) -> Ints:
    """Choose test pictures that every federation tests on, evenly over label and groups."""
    common = federations[0].test
    for other in federations[1:]:
        common = np.intersect1d(common, other.test)
    if not len(common):
        raise GlocalfairError("The runs have no test picture in common. Give runs of one seed, or set 'split.seed'.")
    first = federations[0]
    cells = attribute_cells(first.groups, first.attributes).codes * 2 + first.y
    shuffled = generator(seed, "heat").permutation(common)
    # The n-th picture of every cell comes before the (n+1)-th of any.
    order = np.argsort(cells[shuffled], kind="stable")
    place = np.empty(len(shuffled), dtype=np.int64)
    starts = np.searchsorted(cells[shuffled][order], np.unique(cells[shuffled]))
    begin = np.repeat(starts, np.diff([*starts, len(order)]))
    place[order] = np.arange(len(order)) - begin
    return np.sort(shuffled[np.argsort(place, kind="stable")][:count])


def heat_of(looks: Looks, rows: Ints, layer: str = "") -> tuple[str, Floats, Floats]:
    """Return the layer's name, the logits and the heat ``[rows, side, side]`` of some pictures."""
    rows_on = looks.experiment.simulator.trainer.rows
    first = rows_on.inputs(torch.as_tensor(rows[:1])).float()
    chosen = pick_layer(looks.module, first, layer)
    logits, maps = [], []
    for part in torch.as_tensor(rows).split(CHUNK):
        heat = gradcam(looks.module, rows_on.inputs(part).float(), chosen)
        logits.append(heat.logits)
        maps.append(upsampled(heat.maps, first.shape[-1]))
    return chosen, torch.cat(logits).numpy(), torch.cat(maps).numpy()


def examine(
    looks: Sequence[Looks], pictures: int = 6, rows: int = 1000, layer: str = "", regions: Regions | None = None
) -> list[dict[str, Any]]:
    """Write ``heat.json`` into each run: region shares over `rows` test pictures and overlays of a few of them."""
    federations = [each.experiment.federation for each in looks]
    many = choose_rows(federations, rows)
    few = choose_rows(federations, pictures)
    found = []
    for each in looks:
        federation = each.experiment.federation
        boxes = regions or regions_for(federation.name)
        chosen, _, heat = heat_of(each, many, layer)
        names, shares = heat_shares(heat, boxes)
        _, logits, shown = heat_of(each, few, chosen)
        told = {
            "method": each.experiment.simulator.method.name,
            "seed": each.experiment.config.run.seed,
            "layer": chosen,
            "regions": {name: list(box) for name, box in boxes.items()},
            "pictures": len(many),
            "without_heat": int(np.isnan(shares).any(axis=1).sum()),
            "shares": dict(zip(names, np.nanmean(shares, axis=0).tolist(), strict=True)),
            "differences": {
                attribute.name: dict(
                    zip(names, compare_groups(shares, federation.groups[many, a], attribute), strict=True)
                )
                for a, attribute in enumerate(federation.attributes)
            },
            "examples": [
                _example(federation, row, logit, map_) for row, logit, map_ in zip(few, logits, shown, strict=True)
            ],
        }
        write_atomically(each.path / FILE, json.dumps(jsonable(told), ensure_ascii=False).encode())
        found.append(told)
    return found


def _example(federation: Federation, row: int, logit: float, heat: Floats) -> dict[str, Any]:
    picture = np.asarray(federation.x[row])
    groups = {a.name: a.values[federation.groups[row, i]] for i, a in enumerate(federation.attributes)}
    return {
        "row": int(row),
        "label": int(federation.y[row]),
        "probability": float(1 / (1 + np.exp(-logit))),
        "groups": groups,
        "picture": png(enlarged(picture.transpose(1, 2, 0))),
        "overlay": png(enlarged(overlay(picture, heat))),
    }


def overlay(picture: Pixels, heat: Floats) -> Pixels:
    """Lay heat over a picture ``[3, side, side]``: grey where there is none, then blue, yellow, red."""
    grey = picture.astype(float).mean(0)[..., None] * 0.6 * np.ones(3)
    most = float(heat.max())
    strength = heat / most if most > 0 else np.zeros_like(heat)
    colour = np.stack(
        [
            np.interp(strength, (0, 0.35, 0.65, 1), (0, 30, 250, 220)),
            np.interp(strength, (0, 0.35, 0.65, 1), (0, 90, 210, 30)),
            np.interp(strength, (0, 0.35, 0.65, 1), (120, 220, 60, 20)),
        ],
        axis=-1,
    )
    mix = 0.65 * strength[..., None]
    mixed: Pixels = np.clip(grey * (1 - mix) + colour * mix, 0, 255).astype(np.uint8)
    return mixed


def enlarged(picture: Pixels) -> Pixels:
    """Repeat pixels until the side is large enough to be seen."""
    factor = max(1, -(-SHOWN // picture.shape[0]))
    return picture.repeat(factor, axis=0).repeat(factor, axis=1)


def png(picture: Pixels) -> str:
    """Return a picture ``[height, width, 3]`` as base64 text of a PNG."""
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(picture).save(buffer, "PNG", optimize=True)
    return base64.b64encode(buffer.getvalue()).decode()


def sheet(found: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Write one PNG: a line for each picture, the original first and then the overlay of every run."""
    from PIL import Image

    def image(text: str) -> Pixels:
        return np.asarray(Image.open(io.BytesIO(base64.b64decode(text))))

    lines = [
        np.concatenate([image(same[0]["picture"]), *(image(each["overlay"]) for each in same)], axis=1)
        for same in zip(*(told["examples"] for told in found), strict=True)
    ]
    buffer = io.BytesIO()
    Image.fromarray(np.concatenate(lines)).save(buffer, "PNG", optimize=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, buffer.getvalue())
