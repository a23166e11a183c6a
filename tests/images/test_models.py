"""Picture models: torchvision's shapes and key names, any side from 32 on, pretrained weights."""

import numpy as np
import pytest
import torch
from torch import nn

from glocalfair.errors import GlocalfairError
from glocalfair.layout import Layout
from glocalfair.models import PictureSettings, build
from glocalfair.vision.device import device_for
from glocalfair.vision.mobilenet import MobileNetV2
from glocalfair.vision.pretrained import MEAN, STD, load_pretrained
from glocalfair.vision.resnet import ResNet34

SMALL = {"width": 0.125}


@pytest.mark.parametrize(("make", "parameters"), [(ResNet34, 21_285_185), (MobileNetV2, 2_225_153)])
def test_as_many_parameters_as_torchvision_with_one_output(make, parameters):
    with torch.device("meta"):
        assert sum(p.numel() for p in make().parameters()) == parameters


def test_the_keys_are_torchvisions():
    with torch.device("meta"):
        resnet, mobile = ResNet34().state_dict(), MobileNetV2().state_dict()
    assert len(resnet) == 218 and len(mobile) == 314
    assert resnet["layer2.0.downsample.0.weight"].shape == (128, 64, 1, 1)
    assert resnet["layer4.2.bn2.running_var"].shape == (512,) and resnet["fc.weight"].shape == (1, 512)
    assert mobile["features.1.conv.1.weight"].shape == (16, 32, 1, 1)
    assert mobile["features.2.conv.1.0.weight"].shape == (96, 1, 3, 3)
    assert mobile["features.18.1.weight"].shape == (1280,) and mobile["classifier.1.bias"].shape == (1,)


@pytest.mark.parametrize("make", [ResNet34, MobileNetV2])
@pytest.mark.parametrize("norm", ["batch", "group"])
@pytest.mark.parametrize("reduce", [32, 16, 8])
def test_any_side_from_32_on(make, norm, reduce):
    module = make(3, norm, 0.125, reduce).eval()
    for side in (32, 45):
        assert module(torch.rand(2, 3, side, side)).shape == (2,)


def test_reduce_is_by_how_much_the_sides_shrink():
    for reduce in (32, 16, 8):
        assert ResNet34(reduce=reduce, **SMALL).features(torch.rand(1, 3, 64, 64)).shape[2] == 64 // reduce
        assert MobileNetV2(reduce=reduce, **SMALL).features(torch.rand(1, 3, 64, 64)).shape[2] == 64 // reduce


def test_group_norm_has_no_statistics_and_no_group_of_one_channel():
    for make in (ResNet34, MobileNetV2):
        layout = Layout.of(make(norm="group", **SMALL))
        assert layout.trainable == layout.size
        for layer in make(norm="group", **SMALL).modules():
            if isinstance(layer, nn.GroupNorm):
                assert layer.num_channels // layer.num_groups >= 4


def test_a_model_that_does_not_fit_the_data_is_refused():
    with pytest.raises(
        GlocalfairError, match=r"'resnet34' does not fit these data, which are a table\. Use mlp or linear"
    ):
        build("resnet34", 10, 0)
    with pytest.raises(GlocalfairError, match=r"which are pictures\. Use resnet34 or mobilenet_v2"):
        build("mlp", 3072, 0, pictures=PictureSettings())
    for settings, rule in (({"width": 0.0}, "model.width"), ({"reduce": 4}, "model.reduce"), ({"norm": "x"}, "norm")):
        with pytest.raises(GlocalfairError, match=rule):
            build("resnet34", 3072, 0, pictures=PictureSettings(**settings))


@pytest.mark.parametrize("suffix", ["pth", "safetensors"])
def test_pretrained_weights_do_the_same_with_our_pictures(tmp_path, suffix):
    torch.manual_seed(0)
    theirs = ResNet34(**SMALL)
    with torch.no_grad():
        for _ in range(3):
            theirs(torch.randn(8, 3, 32, 32))
    theirs.eval()
    state = {**theirs.state_dict(), "fc.weight": torch.rand(1000, 64), "fc.bias": torch.rand(1000)}
    path = tmp_path / f"weights.{suffix}"
    if suffix == "pth":
        torch.save(state, path)
    else:
        from safetensors.torch import save_file

        save_file(state, path)
    ours = ResNet34(**SMALL).eval()
    assert load_pretrained(ours, path) == ["fc.bias", "fc.weight"]
    pictures = torch.rand(2, 3, 64, 64)
    normalised = (pictures - torch.tensor(MEAN).view(3, 1, 1)) / torch.tensor(STD).view(3, 1, 1)
    # Padding is black for us and grey for them, so only the inside is the same.
    inside = (slice(None), slice(None), slice(4, -4), slice(4, -4))
    expected = theirs.bn1(theirs.conv1(normalised))[inside]
    torch.testing.assert_close(ours.bn1(ours.conv1(2 * pictures - 1))[inside], expected, atol=1e-4, rtol=1e-4)
    assert "bn1.running_mean" in load_pretrained(ResNet34(norm="group", **SMALL), path)
    with pytest.raises(GlocalfairError, match="Use the 'width'"):
        load_pretrained(ResNet34(width=0.25), path)
    with pytest.raises(GlocalfairError, match="belongs to another model"):
        load_pretrained(MobileNetV2(**SMALL), path)


def test_a_pickle_that_is_more_than_tensors_is_not_executed(tmp_path):
    class Trap:
        def __reduce__(self):
            return (tmp_path.joinpath("executed").touch, ())

    torch.save({"conv1.weight": Trap()}, tmp_path / "trap.pth")
    with pytest.raises(GlocalfairError, match="Cannot read the weights"):
        load_pretrained(ResNet34(**SMALL), tmp_path / "trap.pth")
    assert not (tmp_path / "executed").exists()


def test_devices():
    assert device_for("auto", False).type == "cpu"
    with pytest.raises(GlocalfairError, match=r"'run\.device' must be 'auto'"):
        device_for("tpu-9", True)
    if not torch.cuda.is_available():
        assert device_for("auto", True).type == "cpu"
        with pytest.raises(GlocalfairError, match="torch sees 0 GPUs"):
            device_for("cuda", True)


def test_weights_are_seeded():
    one, two, other = (
        Layout.of(m).flatten(m).numpy()
        for m in (build("resnet34", 0, seed, pictures=PictureSettings(width=0.125)) for seed in (0, 0, 1))
    )
    np.testing.assert_array_equal(one, two)
    assert (one != other).any()
