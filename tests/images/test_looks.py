"""Grad-CAM against captum, region shares against counting, and the way to PNG and page."""

import json

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from glocalfair.cli import main
from glocalfair.errors import GlocalfairError
from glocalfair.types import Attribute
from glocalfair.vision.gradcam import gradcam, pick_layer, upsampled
from glocalfair.vision.mobilenet import MobileNetV2
from glocalfair.vision.regions import ELSEWHERE, GRID, REGIONS, compare_groups, heat_shares, masks
from glocalfair.vision.resnet import ResNet34
from tests.images import samples  # noqa: F401 - skips without pillow


@pytest.mark.parametrize(("make", "layer"), [(ResNet34, "layer3"), (MobileNetV2, "features.13")])
@pytest.mark.filterwarnings("ignore:Setting forward, backward hooks:UserWarning")
def test_gradcam_is_captums(make, layer):
    from captum.attr import LayerGradCam

    torch.manual_seed(0)
    module, x = make(width=0.25).eval(), torch.randn(3, 3, 64, 64)
    expected = LayerGradCam(module, module.get_submodule(layer)).attribute(x, relu_attributions=True)
    found = gradcam(module, x, layer, predicted=False)
    torch.testing.assert_close(found.maps, expected.detach().squeeze(1), atol=1e-6, rtol=1e-4)
    torch.testing.assert_close(found.logits, module(x).detach())


def test_the_predicted_class_is_explained():
    torch.manual_seed(0)
    module, x = ResNet34(width=0.125).eval(), torch.randn(8, 3, 64, 64)
    module.fc.bias.data -= module(x).median().detach()
    logit, predicted = (gradcam(module, x, "layer3", predicted=p) for p in (False, True))
    negative = logit.logits < 0
    assert 0 < negative.sum() < 8
    torch.testing.assert_close(logit.maps[~negative], predicted.maps[~negative])
    flipped = ResNet34(width=0.125).eval()
    flipped.load_state_dict({k: -v if k.startswith("fc") else v for k, v in module.state_dict().items()})
    opposite = gradcam(flipped, x, "layer3", predicted=False)
    torch.testing.assert_close(opposite.maps[negative], predicted.maps[negative])


def test_the_layer_is_the_last_that_is_fine_enough():
    x = torch.rand(1, 3, 64, 64)
    assert pick_layer(ResNet34(width=0.125).eval(), x) == "layer3"
    assert pick_layer(ResNet34(width=0.125, reduce=16).eval(), x) == "layer4"
    assert pick_layer(MobileNetV2(width=0.125).eval(), x) == "features.13"
    own = nn.Sequential(nn.Conv2d(3, 4, 3, 2), nn.ReLU(), nn.Conv2d(4, 2, 3), nn.Flatten(), nn.LazyLinear(1)).eval()
    own(x)
    assert pick_layer(own, x) == "2"
    with pytest.raises(GlocalfairError, match="Did you mean 'layer4'"):
        pick_layer(ResNet34(width=0.125).eval(), x, "layer5")


@settings(max_examples=30)
@given(side=st.integers(4, 70), name=st.sampled_from([*REGIONS, "grid"]))
def test_regions_cover_every_pixel_once(side, name):
    found = masks(REGIONS.get(name, GRID), side)
    np.testing.assert_allclose(sum(found.values()), 1, atol=1e-9)
    assert all((mask >= -1e-12).all() for mask in found.values())
    for region, (left, top, right, bottom) in REGIONS.get(name, GRID).items():
        assert found[region].sum() <= side**2 * (right - left) * (bottom - top) + 1e-6


def test_heat_in_a_region_is_counted():
    heat = np.zeros((3, 8, 8))
    heat[0, 0, 0] = 5
    heat[1, :, :4], heat[1, :, 4:] = 3, 1
    names, shares = heat_shares(heat, {"left": (0.0, 0.0, 0.5, 1.0)})
    assert names == ("left", ELSEWHERE)
    np.testing.assert_allclose(shares[:2], [[1, 0], [0.75, 0.25]])
    assert np.isnan(shares[2]).all(), "no heat, no share"


def test_differences_between_groups_against_scipy():
    from scipy.stats import norm, ttest_ind

    rng = np.random.default_rng(0)
    shares = rng.random((400, 2))
    groups = rng.integers(2, size=400)
    shares[groups == 0, 0] += 0.2
    shares[5] = np.nan
    found = compare_groups(shares, groups, Attribute("sex", ("F", "M")))
    a, b = (shares[(groups == g) & ~np.isnan(shares[:, 0]), 0] for g in (0, 1))
    expected = ttest_ind(a, b, equal_var=False)
    assert found[0]["groups"] == ["F", "M"] and found[0]["counts"] == [len(a), len(b)]
    assert abs(found[0]["difference"] - (a.mean() - b.mean())) < 1e-12
    half = (found[0]["interval"][1] - found[0]["interval"][0]) / 2
    assert abs(half - abs(expected.statistic) ** -1 * abs(a.mean() - b.mean()) * norm.ppf(0.975)) < 1e-3
    assert found[0]["interval"][0] > 0
    alone = compare_groups(shares[:1], groups[:1], Attribute("sex", ("F", "M")))
    assert alone[0]["difference"] is None


def test_upsampled_maps_keep_where_the_heat_is():
    maps = torch.zeros(1, 4, 4)
    maps[0, 3, 0] = 1
    place = int(upsampled(maps, 32)[0].argmax())
    assert place // 32 >= 24 and place % 32 < 8


EXPERIMENT = """
[data]
name = "faces"
rows = 200
people = 80
silos = 4
[partition]
name = "by_column"
min_rows = 1
[model]
name = "resnet34"
width = 0.125
[train]
rounds = 1
participation = 0.5
batch_size = 16
[run]
evaluate_clients = false
"""


def test_from_runs_to_png_json_and_page(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.toml").write_text(EXPERIMENT)
    for method in ("fedavg", "glocalfair"):
        done = CliRunner().invoke(main, ["run", "small.toml", "--method", method, "--quiet"])
        assert done.exit_code == 0, done.output
    done = CliRunner().invoke(main, ["heat", "runs", "--pictures", "3", "--rows", "16"])
    assert done.exit_code == 0 and "mouth" in done.output, done.output
    from PIL import Image

    with Image.open("heat.png") as image:
        assert image.size == (3 * 96, 3 * 96)
    told = json.loads((tmp_path / "runs" / "small-fedavg-seed0" / "heat.json").read_text())
    assert abs(sum(told["shares"].values()) - 1) < 1e-5 and len(told["examples"]) == 3
    assert set(told["differences"]) == {"gender", "age"}
    done = CliRunner().invoke(main, ["report", "runs"])
    page = (tmp_path / "report.html").read_text()
    assert done.exit_code == 0 and "What the models look at" in page
    assert page.count("data:image/png;base64,") >= 9
    # A file from somewhere else cannot write into the page.
    told["examples"][0]["overlay"] = '"/><script>alert(1)</script>'
    (tmp_path / "runs" / "small-fedavg-seed0" / "heat.json").write_text(json.dumps(told))
    CliRunner().invoke(main, ["report", "runs"])
    assert "<script>alert" not in (tmp_path / "report.html").read_text()
    (tmp_path / "runs" / "small-fedavg-seed0" / "heat.json").write_text("{")
    assert "is broken" in CliRunner().invoke(main, ["report", "runs"]).output


def test_tables_have_no_heat_maps(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arguments = ["run", "synthetic", "--rounds", "1", "--set", "data.rows=500", "--quiet"]
    run = CliRunner().invoke(main, arguments).output.strip()
    done = CliRunner().invoke(main, ["heat", run])
    assert done.exit_code != 0 and "Heat maps need pictures" in done.output
