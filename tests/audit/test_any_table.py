"""Tables nobody has seen, as predictions and as new rows: a report, or one line that says why not."""

from __future__ import annotations

import json
from typing import Any

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from glocalfair import Bundle, Federation, GlocalfairError, train
from glocalfair.audit import audit
from glocalfair.audit_page import page
from glocalfair.runs import jsonable

from ..frame.people import people
from ..frame.test_any_table import CELLS, frames


@settings(max_examples=80, deadline=None)
@given(frame=frames(), data=st.data())
def test_random_predictions(frame: pl.DataFrame, data: st.DataObject) -> None:
    names = st.sampled_from(frame.columns)
    options: dict[str, Any] = {
        "label": data.draw(names),
        "prediction": data.draw(names),
        "sensitive": data.draw(st.lists(names, max_size=2)),
        "client": data.draw(st.none() | names),
        "threshold": data.draw(st.none() | st.floats(-2, 2)),
    }
    try:
        report = audit(frame, **options)
    except GlocalfairError as error:
        assert str(error)
        return
    json.dumps(jsonable(report.to_dict()), allow_nan=False)
    report.sentences()
    assert page(report, "any").startswith("<!DOCTYPE html>")


BUNDLE: list[Bundle] = []


def bundle() -> Bundle:
    if not BUNDLE:
        frame = people().select("age", "income", "sex", "job", "approved")
        made = train(Federation.from_frame(frame, label="approved", sensitive="sex"), "fedavg", rounds=1).bundle
        assert made is not None
        BUNDLE.append(made)
    return BUNDLE[0]


@settings(max_examples=80, deadline=None)
@given(data=st.data())
def test_random_rows_to_predict(data: st.DataObject) -> None:
    rows = data.draw(st.integers(0, 8))
    columns = {}
    for name in data.draw(st.sampled_from([("age", "income", "sex", "job"), ("age", "sex")])):
        cells = st.lists(st.none() | data.draw(st.sampled_from(CELLS)), min_size=rows, max_size=rows)
        columns[name] = pl.Series(name, data.draw(cells), strict=False)
    try:
        probability, misfit = bundle().predict(pl.DataFrame(columns))
    except GlocalfairError as error:
        assert "\n" not in str(error)
        return
    assert len(probability) == rows and ((probability >= 0) & (probability <= 1)).all()
    misfit.lines()
