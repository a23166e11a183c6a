"""A table is understood: types, label, groups, clients, and what to warn of."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest

from glocalfair.data import Encoder, PartitionSpec, SplitSpec, build
from glocalfair.data.frame import FrameSchema
from glocalfair.data.frame.profile import Profile
from glocalfair.errors import GlocalfairError

from .people import people, understood, warned


def test_every_column_finds_its_role() -> None:
    found = understood(people(), sensitive=("sex", "race", "age:<40"), client="hospital")
    roles = {(line.name, line.role) for line in found.profile.lines}
    assert {("approved", "label"), ("sex", "sensitive"), ("age", "sensitive"), ("hospital", "client")} <= roles
    assert set(found.schema.numeric) == {"age", "income"}
    assert [name for name, _ in found.schema.categorical] == ["sex", "race", "job", "letter"]
    assert {name for name, role in roles if role == "left out"} == {"person_id", "name", "born", "country"}
    assert warned(found, "identifiers", "person_id, name")
    assert warned(found, "dates", "born")
    assert found.dataset.owner_names == ("north", "south", "west")


def test_the_table_shown_before_training() -> None:
    found = understood(people(), sensitive=("sex",))
    text = found.profile.render(100)
    assert max(map(len, text.splitlines())) <= 100
    for words in ("approved", "positive is 'yes'", "clerk ", "mean ", "400 rows", "of memory as inputs"):
        assert words in text
    assert Profile.from_dict(json.loads(json.dumps(found.profile.to_dict()))) == found.profile


def test_missing_features_are_handled_by_the_encoder() -> None:
    frame = people()
    found = understood(frame)
    line = next(line for line in found.profile.lines if line.name == "income")
    assert line.missing == frame["income"].null_count() > 0
    assert dict(found.schema.categorical)["job"] == ("clerk", "none", "nurse", "(missing)")
    encoder = Encoder.fit(found.dataset, np.arange(len(found.dataset)))
    assert "income missing" in encoder.names
    assert np.isfinite(encoder.transform(found.dataset)).all()


@pytest.mark.parametrize(
    ("values", "positive", "expected"),
    [
        (["yes", "no"], None, "yes"),
        (["N", "Y"], None, "Y"),
        ([1, 0], None, "1"),
        ([1.0, 0.0], None, "1"),
        ([1, -1], None, "1"),
        ([True, False], None, "true"),
        ([">50K", "<=50K"], None, ">50K"),
        ([" yes", "no "], None, "yes"),
        (["good", "bad"], "bad", "bad"),
        (["Good", "Bad"], "bad", "Bad"),
        ([1, 2], 2, "2"),
        ([1, 2], "1", "1"),
        ([1.5, 2.5], 2.5, "2.5"),
    ],
)
def test_binary_labels_of_any_spelling(values: list[object], positive: object, expected: str) -> None:
    frame = pl.DataFrame({"x": np.arange(40.0) ** 2, "approved": values * 20}, strict=False)
    found = understood(frame, positive=positive)
    assert found.schema.positive == expected
    assert found.dataset.label.tolist() == [1, 0] * 20 if str(values[0]).strip() == expected else [0, 1] * 20


def test_missing_labels_are_left_out_and_told() -> None:
    frame = people().with_columns(approved=pl.when(pl.int_range(pl.len()) % 57 == 1).then(None).otherwise("approved"))
    found = understood(frame)
    assert found.profile.dropped == 7 and len(found.dataset) == 393
    assert warned(found, "'approved' is missing in 7 of 400 rows (rows 2, 59, 116, 173, 230 and 2 more): left out")


@pytest.mark.parametrize("choice", ["group", "drop"])
def test_missing_sensitive_values(choice: str) -> None:
    frame = people().with_columns(sex=pl.when(pl.int_range(pl.len()) < 3).then(pl.lit("?")).otherwise("sex"))
    found = understood(frame, sensitive=("sex",), missing_sensitive=choice)
    assert warned(found, "'sex' is missing in 3 of 400 rows (rows 1, 2 and 3)")
    values = found.dataset.attributes[0].values
    if choice == "group":
        assert values == ("Female", "Male", "(missing)")
        assert found.dataset.groups[:3, 0].tolist() == [2, 2, 2]
        assert warned(found, "Few rows", "(missing) (3)")
    else:
        assert values == ("Female", "Male") and len(found.dataset) == 397


def test_bins() -> None:
    frame = people()
    found = understood(frame, sensitive=("age:30,50",))
    assert found.dataset.attributes[0].values == ("<30", "[30, 50)", ">=50")
    age = frame["age"].to_numpy()
    np.testing.assert_array_equal(found.dataset.groups[:, 0], (age >= 30).astype(int) + (age >= 50))
    closed = understood(frame, sensitive=("age:<=30",))
    np.testing.assert_array_equal(closed.dataset.groups[:, 0], age > 30)


def test_leaks_are_found_whatever_their_form() -> None:
    frame = people()
    yes = frame["approved"] == "yes"
    frame = frame.with_columns(
        shifted=pl.when(yes).then(7.5).otherwise(2.0) + pl.int_range(pl.len()) / 1000,
        when_paid=pl.when(yes).then(pl.int_range(pl.len()) % 9),
        almost=pl.when(pl.int_range(pl.len()) % 50 == 0).then(~yes).otherwise(yes),
        risk_score=pl.col("income").fill_null(0) + pl.int_range(pl.len()) % 7,
    )
    found = understood(frame)
    for column in ("letter", "shifted", "when_paid"):
        assert warned(found, f"'{column}' alone predicts the label 'approved' perfectly")
    assert warned(found, "'almost' alone", "almost perfectly")
    assert warned(found, "Look at the names: risk_score")
    assert not warned(found, "'income' alone")
    dropped = understood(frame, leaks="drop")
    assert not {"letter", "shifted", "when_paid", "almost"} & set(dropped.schema.inputs)
    assert warned(dropped, "Left out because they give the label")
    with pytest.raises(GlocalfairError, match="gives the label 'approved' away"):
        understood(frame, leaks="error")
    assert not warned(understood(frame, keep=("letter",)), "'letter' alone")


def test_very_many_categories() -> None:
    rng = np.random.default_rng(0)
    codes = np.minimum(rng.geometric(0.02, 2000), 300)
    frame = people(2000).with_columns(
        code=pl.Series([f"c{c}" for c in codes]), text=pl.Series(rng.choice(900, 2000)).cast(str)
    )
    frame = frame.with_columns(text=pl.lit("t") + pl.col("text"))
    found = understood(frame, max_categories=100)
    values = dict(found.schema.categorical)["code"]
    assert len(values) == 100 and "(other)" in values
    assert warned(found, "'code'", "99 most frequent")
    assert warned(found, "free text", "text")
    assert "text" in dict(understood(frame, keep=("text",)).schema.categorical)
    codes = people(4000).with_columns(code=pl.int_range(pl.len()).mod(150).cast(str) + "c")
    assert len(dict(understood(codes, max_categories=20).schema.categorical)["code"]) == 20


def test_numbers_in_words() -> None:
    strange = pl.Series(["12", "13.5", " 7", "1e3"] * 99 + ["many", None, "?", "9"])
    found = understood(people().with_columns(amount=strange))
    assert "amount" in found.schema.numeric
    assert warned(found, "'amount': 1 values are no finite numbers")
    euros = pl.Series([f"{i % 60},50" for i in range(400)])
    assert warned(understood(people().with_columns(amount=euros)), "'amount'", "numbers written as text")


def test_a_sensitive_column_can_be_no_input() -> None:
    for options in ({"sensitive_as_input": False}, {"drop": ("sex",)}):
        found = understood(people(), sensitive=("sex",), **options)
        assert "sex" not in found.schema.inputs and found.dataset.attributes[0].name == "sex"


def test_the_schema_reads_another_table_the_same_way() -> None:
    found = understood(people(), sensitive=("sex", "age:<40"), client="hospital")
    schema = FrameSchema.from_dict(json.loads(json.dumps(found.schema.to_dict())))
    assert schema == found.schema
    other = people(50, seed=1).select(pl.all().shuffle(0)).select(sorted(people().columns))
    other = other.with_columns(job=pl.lit("pilot"), income=pl.lit("lots"))
    dataset, misfit = schema.read_inputs(other)
    assert misfit.unknown == {"job": 50} and misfit.not_numbers == {"income": 50}
    assert set(misfit.extra) == {"person_id", "name", "born", "country"}
    encoder = Encoder.fit(found.dataset, np.arange(400))
    x = encoder.transform(dataset)
    jobs = [i for i, name in enumerate(encoder.names) if name.startswith("job=")]
    assert not x[:, jobs].any()
    with pytest.raises(GlocalfairError, match=r"lacks 1 of the 6 columns.*'age'"):
        schema.read_inputs(other.drop("age"))
    assert schema.read_groups(people()).tolist() == found.dataset.groups.tolist()


def test_what_of_another_table_does_not_fit() -> None:
    found = understood(people(), sensitive=("sex",), max_categories=2)
    jobs = found.schema.categorical[[name for name, _ in found.schema.categorical].index("job")][1]
    assert "(other)" in jobs
    other = people(50).with_columns(job=pl.lit("pilot"), sex=pl.Series([None, "X"] * 25))
    _, misfit = found.schema.read_inputs(other)
    assert {
        "Column 'sex': 25 values that the model has never seen.",
        "Column 'job': 50 of its values count as (other).",
        "Column 'sex': 25 missing values; in the training data it had none.",
    } <= set(misfit.lines())


def test_a_site_reads_its_part_by_the_schema() -> None:
    found = understood(people(), sensitive=("sex", "age:<40"), client="hospital")
    whole, fits = found.schema.read(people())
    np.testing.assert_array_equal(whole.numeric, found.dataset.numeric)
    np.testing.assert_array_equal(whole.label, found.dataset.label)
    assert fits.lines() == []
    site = people().with_columns(
        approved=pl.when(pl.int_range(pl.len()) == 0).then(None).otherwise("approved"),
        sex=pl.when(pl.int_range(pl.len()) == 1).then(pl.lit("other")).otherwise("sex"),
    )
    part, misfit = found.schema.read(site)
    assert len(part) == 398
    assert misfit.lines() == [
        "Column 'sex': 1 value that the model has never seen.",
        "2 rows lack a label or a known group; they are left out.",
    ]
    with pytest.raises(GlocalfairError, match="Unknown column 'sex'"):
        found.schema.read(people().drop("sex"))


def test_a_federation_by_the_client_column() -> None:
    found = understood(people(), sensitive=("sex",), client="hospital")
    federation, _ = build(found.dataset, PartitionSpec("by_column"), SplitSpec(), seed=0)
    assert [client.name for client in federation.clients] == ["north", "south", "west"]
    assert federation.x.dtype == np.float32
