"""The page as a file: self-contained, small, escaped, well-formed."""

from __future__ import annotations

import json
import re
import shutil
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path

import pytest

from glocalfair.report.html.build import write_report

from ..cli.invoke import glocalfair, trained
from .samples import FAIR, HOSTILE, write_pair, write_run

VOID = {"meta", "br", "path", "line", "circle", "rect"}


class Outline(HTMLParser):
    """Collects tags, attributes and text, and checks that every element is closed."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.open: list[str] = []
        self.feed(page)
        assert self.open == []

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def page(folder: Path, *paths: Path) -> str:
    write_report(paths, folder / "report.html")
    return (folder / "report.html").read_text()


def test_holds_everything_and_nothing_from_outside(tmp_path: Path) -> None:
    text = page(tmp_path, write_pair(tmp_path / "runs"))
    outline = Outline(text)
    assert len(text.encode()) < 500_000
    assert not re.search(r"https?://", text)
    for name, attributes in outline.tags:
        assert name not in ("link", "img", "iframe", "object", "base")
        assert "src" not in attributes
        assert not (attributes.get("href") or "#").strip("#").count(":")
    ids = [a["id"] for _, a in outline.tags if "id" in a]
    assert len(ids) == len(set(ids))
    for section in ("verdict", "results", "frontier", "local", "training", "constraints", "lorenz", "gini", "holdings"):
        assert section in ids
    for told in ("the model after local training", "four totals", "glocalfair run glocalfair.toml --seed 1"):
        assert told in outline.text
    assert "noise floor" in text
    assert "★" in text


def test_a_page_is_made_of_real_runs(tmp_path: Path) -> None:
    for method in ("fedavg", "glocalfair"):
        trained(tmp_path / "runs" / method, "--method", method)
    done = glocalfair("report", tmp_path / "runs", "-o", tmp_path / "r.html", "--title", "A <b> title")
    assert done.exit_code == 0, done.output
    outline = Outline((tmp_path / "r.html").read_text())
    assert "A <b> title" in outline.text
    assert "torch" in outline.text
    assert json.loads((tmp_path / "runs" / "fedavg" / "federation.json").read_text())["names"][-1] == "(global test)"


def test_names_from_a_run_are_text(tmp_path: Path) -> None:
    bad = f"{HOSTILE}</script><script>alert(2)</script>\x07'\""
    for method in ("fedavg", "glocalfair"):
        write_run(
            tmp_path / "runs" / method,
            {bad: (0.6, 0.1), "b": FAIR},
            method=method,
            attribute=bad,
            data=bad,
            clients=(bad, "south"),
        )
    outline = Outline(page(tmp_path, tmp_path / "runs"))
    assert HOSTILE in outline.text
    assert not [name for name, _ in outline.tags if name == "img"]
    assert [name for name, _ in outline.tags].count("script") == 1
    assert not [a for _, a in outline.tags for key in a if key.startswith("on")]
    assert (
        glocalfair("report", tmp_path / "runs", "-o", tmp_path / "r.html", "--figures", tmp_path / "f").exit_code == 0
    )
    for file in (tmp_path / "f").iterdir():
        ET.parse(file)
        assert re.fullmatch(r"[\w.-]+\.svg", file.name)


def test_figures_are_svg_files_of_their_own(tmp_path: Path) -> None:
    write_report([write_pair(tmp_path / "runs")], tmp_path / "r.html", figures=tmp_path / "figures")
    files = sorted(path.name for path in (tmp_path / "figures").iterdir())
    assert "training.svg" in files
    assert "frontier-EOD-sex.svg" in files
    for name in files:
        text = (tmp_path / "figures" / name).read_text()
        root = ET.fromstring(text)
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        # Few tools that read SVG know variables.
        assert "var(" not in text
        assert "data-tip" not in text


def test_a_method_without_gini_or_constraints_has_no_such_figures(tmp_path: Path) -> None:
    text = page(tmp_path, write_run(tmp_path / "run", {"Female": FAIR, "Male": FAIR}))
    assert 'id="lorenz"' not in text
    assert 'id="constraints"' not in text


def test_a_run_without_holdings_or_rounds_still_has_a_page(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", {"Female": FAIR, "Male": FAIR}, one_group=("north", "south"))
    (run / "federation.json").unlink()
    (run / "rounds.jsonl").write_text("")
    text = page(tmp_path, run)
    assert "undefined" in text
    assert 'id="holdings"' not in text


def test_equal_runs_give_equal_pages(tmp_path: Path) -> None:
    runs = write_pair(tmp_path / "runs")
    assert page(tmp_path, runs) == page(tmp_path, runs)


@pytest.mark.parametrize(("tpr", "word"), [(0.69, "better"), (0.48, "worse"), (0.585, "within noise")])
def test_a_card_says_better_only_beyond_the_noise(tmp_path: Path, tpr: float, word: str) -> None:
    write_run(tmp_path / "runs" / "a", {"Female": (0.58, 0.1), "Male": (0.7, 0.1)})
    write_run(tmp_path / "runs" / "b", {"Female": (tpr, 0.1), "Male": (0.7, 0.1)}, method="glocalfair")
    cards = re.findall(
        r"<dt>(.*?)</dt><dd><b>.*?</b><span>.*?<i class=\"\w+\">(.*?)</i>", page(tmp_path, tmp_path / "runs")
    )
    assert dict(cards)["EOD sex"] == word


def test_best_is_the_smallest_excess_and_never_collapsed(tmp_path: Path) -> None:
    write_run(tmp_path / "runs" / "a", {"Female": (0.5, 0.1), "Male": (0.7, 0.1)})
    write_run(tmp_path / "runs" / "b", {"Female": (0.0, 0.0), "Male": (0.0, 0.0)}, method="glocalfair")
    text = page(tmp_path, tmp_path / "runs")
    rows = re.findall(r"<tr><th scope=\"row\"><span>(\w+)</span>.*?</tr>", text)
    assert rows[:2] == ["fedavg", "glocalfair"]
    collapsed = next(row for row in text.split("<tr>") if "collapsed</span>" in row)
    assert "★" not in collapsed.split("</tr>")[0]


class TestErrors:
    """One line that names the directory, and exit code 2."""

    def fails(self, *arguments: object) -> str:
        done = glocalfair("report", *arguments)
        assert done.exit_code == 2
        assert done.stderr.startswith("Error: ")
        assert done.stderr.count("\n") == 1
        return done.stderr

    def test_unfinished(self, tmp_path: Path) -> None:
        write_pair(tmp_path / "runs")
        (tmp_path / "runs" / "fedavg-1" / "result.json").unlink()
        assert f"'{tmp_path / 'runs' / 'fedavg-1'}' is not finished" in self.fails(tmp_path / "runs")

    @pytest.mark.parametrize(
        ("file", "content"),
        [
            ("result.json", "{"),
            ("result.json", "{}"),
            ("result.json", '{"method": 1, "seed": 1, "rounds": 1, "global": {}, "local": {}, "counts": {}}'),
            ("rounds.jsonl", "{\n"),
            ("config.toml", "["),
            ("federation.json", "x"),
        ],
    )
    def test_broken(self, tmp_path: Path, file: str, content: str) -> None:
        run = write_run(tmp_path / "run", {"Female": FAIR, "Male": FAIR})
        (run / file).write_text(content)
        assert f"'{run}' is broken" in self.fails(run)

    def test_nothing_there(self, tmp_path: Path) -> None:
        (tmp_path / "empty").mkdir()
        assert "holds no run" in self.fails(tmp_path / "empty")
        assert "not a directory" in self.fails(tmp_path / "absent")

    def test_different_attributes(self, tmp_path: Path) -> None:
        write_run(tmp_path / "a", {"Female": FAIR, "Male": FAIR})
        write_run(tmp_path / "b", {"old": FAIR, "young": FAIR}, attribute="age")
        assert "different sensitive attributes" in self.fails(tmp_path)

    def test_png_without_a_browser(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(shutil, "which", lambda name: None)
        run = write_run(tmp_path / "run", {"Female": FAIR, "Male": FAIR})
        assert "--figures" in self.fails(run, "--png")
        out = ("-o", tmp_path / "r.html", "--figures", tmp_path / "f", "--png")
        assert "needs Chromium" in self.fails(run, *out)
