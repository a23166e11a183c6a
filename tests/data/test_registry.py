"""Datasets are found by themselves, and their options are checked."""

import dataclasses
import subprocess
import sys

import numpy as np
import pytest

from glocalfair.data import PartitionSpec, SplitSpec, build, build_options, datasets, from_mapping, load
from glocalfair.data.federation import check
from glocalfair.errors import GlocalfairError


def test_every_dataset_declares_itself():
    for name, entry in datasets().items():
        assert entry.name == name and entry.description and entry.licence
        assert dataclasses.is_dataclass(entry.options) and entry.options.__dataclass_params__.frozen
        assert entry.load.__doc__ and entry.options.__doc__


@pytest.mark.parametrize("name", ["adult", "synthetic"])
def test_contract_of_a_dataset(name):
    data = load(name)
    check(data)
    assert data.numeric.shape == (len(data), len(data.numeric_names))
    assert data.categorical.shape == (len(data), len(data.categories))
    for column, (_, values) in zip(data.categorical.T, data.categories, strict=True):
        assert column.min() >= 0 and column.max() < len(values) == len(set(values))
    again = load(name)
    np.testing.assert_array_equal(data.numeric, again.numeric)
    np.testing.assert_array_equal(data.label, again.label)
    federation, _ = build(data, PartitionSpec("iid"), SplitSpec(), seed=0)
    assert federation.x.dtype == np.float32 and federation.x.flags["C_CONTIGUOUS"]
    assert np.isfinite(federation.x).all()


def test_importing_the_room_loads_neither_polars_nor_torch():
    code = "import sys, glocalfair.data as d; d.datasets(); print({'torch', 'polars', 'pandas'} & set(sys.modules))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "set()"


def test_unknown_dataset_and_option_get_the_nearest_name():
    with pytest.raises(GlocalfairError, match="Did you mean 'adult'"):
        load("adutl")
    with pytest.raises(GlocalfairError, match=r"Unknown 'synthetic' option 'feature'\. Did you mean 'features'"):
        build_options(datasets()["synthetic"], {"feature": 3})


@pytest.mark.parametrize(
    ("name", "field", "value", "rule"),
    [
        ("synthetic", "rows", "many", "a whole number"),
        ("synthetic", "rows", 10.5, "a whole number"),
        ("synthetic", "rows", True, "a whole number"),
        ("synthetic", "bias", "big", "a number"),
        ("synthetic", "sensitive_as_input", 1, "true or false"),
        ("adult", "sensitive", "sex", "a list"),
        ("adult", "sensitive", [1], "a string"),
    ],
)
def test_wrong_types(name, field, value, rule):
    with pytest.raises(GlocalfairError, match=f"'{field}' must be {rule}"):
        build_options(datasets()[name], {field: value})


def test_toml_values_become_field_types():
    options = build_options(datasets()["synthetic"], {"bias": 2})
    assert type(options.bias) is float
    assert build_options(datasets()["adult"], {"sensitive": ["race"]}).sensitive == ("race",)


def test_fields_that_may_be_none():
    @dataclasses.dataclass(frozen=True)
    class Options:
        path: str | None = None
        side: int | float = 1

    assert from_mapping(Options, {"path": None, "side": 2.5}) == Options(None, 2.5)
    with pytest.raises(GlocalfairError, match="'path' must be a string"):
        from_mapping(Options, {"path": 3})
