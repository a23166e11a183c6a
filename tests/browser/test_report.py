"""The report in a real browser: quiet, offline, usable by hand, by keyboard and on a phone."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from glocalfair.report.html import files
from glocalfair.report.html.build import arms_of
from glocalfair.report.html.charts import frontier

from .conftest import Open


@pytest.mark.parametrize("width", [1280, 375, 320])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_opens_quietly_and_fits(open_page: Open, report: Path, width: int, scheme: str) -> None:
    seen = open_page(report, width, scheme)
    seen.page.wait_for_timeout(50)
    assert seen.troubles == []
    assert seen.requests == [report.as_uri()]
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= width
    assert seen.page.locator("#verdict .lead").first.is_visible()


def test_text_is_legible_on_a_phone(open_page: Open, report: Path) -> None:
    page = open_page(report, 375).page
    sizes = page.evaluate(
        """() => [...document.querySelectorAll('svg.panel text')].filter(t => t.getClientRects().length)
        .map(t => parseFloat(getComputedStyle(t).fontSize) * t.getScreenCTM().a).filter(s => s > 0)"""
    )
    assert min(sizes) >= 9


def test_names_do_not_run(open_page: Open, hostile: Path) -> None:
    seen = open_page(hostile)
    seen.page.locator("svg [data-tip]").first.focus()
    seen.page.wait_for_timeout(50)
    assert seen.troubles == []
    assert seen.page.locator("img").count() == 0
    assert "<img src=x" in seen.page.locator("#holdings").inner_text()


def test_a_select_changes_the_chart(open_page: Open, report: Path) -> None:
    page = open_page(report).page
    figure = page.locator("figure[data-name=frontier]")
    head = figure.locator(".view:visible .head")
    assert head.text_content() == "Accuracy and EOD sex, global test set"
    figure.locator("select").select_option("DP-Dis")
    assert head.text_content() == "Accuracy and DP-Dis, global test set"
    assert figure.locator(".view:visible").count() == 1


def test_choosing_a_client_and_a_constraint(open_page: Open, report: Path) -> None:
    page = open_page(report).page
    figure = page.locator("figure[data-name=constraints]")
    page.locator("#constraints-1").select_option("south")
    assert figure.locator(".view:visible .head").first.text_content() == "λ at south"
    page.locator("#constraints-series").select_option("fnr(sex=Male)")
    faded = figure.locator(".view:visible .panels .off")
    assert {faded.nth(i).get_attribute("data-s") for i in range(faded.count())} == {"fnr(sex=Female)"}
    page.locator("#constraints-series").select_option("all")
    assert faded.count() == 0


def test_tooltips_by_keyboard_and_pointer(open_page: Open, report: Path) -> None:
    page = open_page(report).page
    tip = page.locator("#tip")
    marks = page.locator("figure[data-name=training] svg").nth(2).locator("[data-tip]")
    marks.first.focus()
    assert tip.is_visible()
    assert "round 1" in tip.inner_text()
    page.keyboard.press("ArrowRight")
    assert "round 2" in tip.inner_text()
    page.keyboard.press("Escape")
    assert tip.is_hidden()
    page.locator("figure[data-name=frontier] .view:visible [data-tip]").first.hover()
    assert "accuracy" in tip.inner_text()
    box = tip.bounding_box()
    assert box is not None
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 1280


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_theme_button_turns_the_colours_and_remembers(open_page: Open, report: Path, scheme: str) -> None:
    page = open_page(report, scheme=scheme).page
    colour = "getComputedStyle(document.body).backgroundColor"
    before = page.evaluate(colour)
    page.locator("#theme").click()
    after = page.evaluate(colour)
    assert after != before
    page.reload()
    assert page.evaluate(colour) == after


def test_what_is_seen_is_saved(open_page: Open, report: Path, tmp_path: Path) -> None:
    page = open_page(report).page
    figure = page.locator("figure[data-name=training]")
    with page.expect_download() as caught:
        figure.get_by_role("button", name="Save figure as SVG: Training").click()
    assert caught.value.suggested_filename == "training.svg"
    caught.value.save_as(tmp_path / "training.svg")
    text = (tmp_path / "training.svg").read_text()
    root = ET.fromstring(text)
    assert root.tag.endswith("svg")
    assert "Training loss" in text
    assert "fedavg" in text
    assert "var(" not in text


ACCESSIBLE = """() => {
  const faults = [];
  const named = (node) => node.getAttribute('aria-label') || node.textContent.trim() || node.labels?.length;
  for (const node of document.querySelectorAll('button, a[href], select, summary')) {
    if (!named(node)) faults.push('no name: ' + node.outerHTML.slice(0, 80));
  }
  for (const node of document.querySelectorAll('select')) {
    if (!node.labels.length) faults.push('no label: ' + node.id);
  }
  for (const node of document.querySelectorAll('svg.panel')) {
    const has = node.querySelector('title')?.textContent && node.getAttribute('aria-label');
    if (!has || !node.querySelector('desc')) faults.push('svg without title');
  }
  for (const node of document.querySelectorAll('[tabindex="0"]')) {
    if (!node.getAttribute('aria-label')) faults.push('focus without a name: ' + node.outerHTML.slice(0, 80));
  }
  let level = 0;
  for (const node of document.querySelectorAll('h1, h2, h3, h4')) {
    const own = Number(node.tagName[1]);
    if (own > level + 1) faults.push('heading jumps: ' + node.textContent);
    level = own;
  }
  for (const [what, number] of [['main', 1], ['h1', 1], ['header', 1], ['nav[aria-label]', 1], ['footer', 1]]) {
    if (document.querySelectorAll(what).length !== number) faults.push('not one ' + what);
  }
  for (const node of document.querySelectorAll('.view')) {
    if (!node.querySelector('details table')) faults.push('a chart without its data');
  }
  for (const node of document.querySelectorAll('table')) {
    if (!node.querySelector('caption') || !node.querySelector('th[scope]')) faults.push('a table without headings');
  }
  if (!document.documentElement.lang) faults.push('no language');
  return faults;
}"""
CONTRAST = """() => {
  const parts = (colour) => colour.match(/[\\d.]+/g).slice(0, 3).map(Number);
  const light = (colour) => parts(colour).map((v) => v / 255)
    .map((v) => (v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4))
    .reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
  const solid = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const colour = getComputedStyle(at).backgroundColor;
      if (!/, 0\\)$|transparent/.test(colour)) return colour;
    }
    return 'rgb(255, 255, 255)';
  };
  const low = [];
  for (const node of document.querySelectorAll('p, li, a, th, td, small, b, i, dt, dd, button, summary, svg text')) {
    if (!node.getClientRects().length || node.matches('.cell')) continue;
    const style = getComputedStyle(node);
    const front = light(node.closest('svg') ? style.fill : style.color), back = light(solid(node));
    const ratio = (Math.max(front, back) + .05) / (Math.min(front, back) + .05);
    if (ratio < 4.5) low.push(node.textContent.slice(0, 30) + ' ' + ratio.toFixed(2));
  }
  return low;
}"""


def test_everything_has_a_name_and_a_place(open_page: Open, report: Path) -> None:
    assert open_page(report).page.evaluate(ACCESSIBLE) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_contrast(open_page: Open, report: Path, scheme: str) -> None:
    assert open_page(report, scheme=scheme).page.evaluate(CONTRAST) == []


def test_the_first_key_leads_past_the_heading(open_page: Open, report: Path) -> None:
    page = open_page(report).page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the verdict"
    page.keyboard.press("Enter")
    assert page.evaluate("location.hash") == "#verdict"


def test_without_a_script_the_first_views_are_there(browser: object, report: Path) -> None:
    context = browser.new_context(java_script_enabled=False)  # type: ignore[attr-defined]
    page = context.new_page()
    page.goto(report.as_uri())
    assert page.locator("figure .view:visible").count() == page.locator("figure.chart").count()
    context.close()


@pytest.mark.usefixtures("browser")
def test_png_files_are_three_times_as_sharp(report: Path, tmp_path: Path) -> None:
    chart = frontier.chart(arms_of([report.parent / "runs"]))
    assert chart is not None
    written = files.write([chart], tmp_path, png=True)
    assert [path.suffix for path in written] == [".svg", ".png"] * len(chart.views)
    header = written[1].read_bytes()[:24]
    assert header[1:4] == b"PNG"
    assert int.from_bytes(header[16:20], "big") == 3 * 400
