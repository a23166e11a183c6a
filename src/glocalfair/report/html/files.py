"""The figures as files for papers: SVG always, PNG by a headless Chromium if asked for."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from glocalfair.errors import GlocalfairError
from glocalfair.report.html.charts.chart import Chart, View
from glocalfair.report.html.markup import Html, tag
from glocalfair.report.html.page import file_style
from glocalfair.report.html.plot import legend
from glocalfair.runs import write_atomically

_SIZE = re.compile(r'viewBox="0 0 ([\d.]+) ([\d.]+)"')
_GAP = 16


def svg(view: View) -> str:
    """Put a view's legend and panels into one SVG image, panels side by side."""
    sizes = [_size(panel) for panel in view.panels]
    width = sum(w for w, _ in sizes) + _GAP * (len(sizes) - 1)
    key = legend(view.legend, width) if view.legend else None
    top = _size(key)[1] + 8 if key else 0.0
    parts = [key] if key else []
    x = 0.0
    for panel, (w, _) in zip(view.panels, sizes, strict=True):
        parts.append(Html(panel.replace("<svg ", f'<svg x="{x:g}" y="{top:g}" ', 1)))
        x += w + _GAP
    height = top + max(h for _, h in sizes)
    # Tooltips and series names serve the page alone.
    inner = (Html(re.sub(r' data-(?:tip|s)="[^"]*"', "", part)) for part in parts)
    return tag(
        "svg",
        tag("style", Html(file_style())),
        tag("rect", width="100%", height="100%", fill="#fff"),
        *inner,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {width:g} {height:g}",
        width=f"{width:g}",
        height=f"{height:g}",
    )


def _size(panel: str) -> tuple[float, float]:
    found = _SIZE.search(panel)
    assert found is not None
    return float(found[1]), float(found[2])


def write(charts: Sequence[Chart], folder: Path, *, png: bool = False) -> list[Path]:
    """Write every view of every chart; return the files."""
    browser = _browser() if png else ""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for chart in charts:
        for view in chart.views:
            path = folder / f"{_name(chart, view)}.svg"
            write_atomically(path, svg(view).encode())
            written.append(path)
            if png:
                written.append(_png(browser, path, view))
    return written


def _name(chart: Chart, view: View) -> str:
    chosen = (choice.options[i] for choice, i in zip(chart.choices, view.key, strict=True))
    words = [chart.id, *chosen]
    return "-".join(re.sub(r"[^\w.]+", "-", word).strip("-.")[:40] or "x" for word in words)


def _browser() -> str:
    found = next((path for name in ("chromium", "google-chrome", "chrome") if (path := shutil.which(name))), None)
    if found is None:
        raise GlocalfairError("'--png' needs Chromium or Chrome to draw with: install it, or use the SVG files.")
    return found


def _png(browser: str, path: Path, view: View) -> Path:
    width, height = _size(svg(view))
    target = path.with_suffix(".png")
    command = [
        browser,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        "--force-device-scale-factor=3",
    ]
    command += [f"--window-size={width:.0f},{height:.0f}", f"--screenshot={target.resolve()}", path.resolve().as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    if done.returncode or not target.exists():
        raise GlocalfairError(f"{browser} could not draw '{target}'. The SVG file is there.")
    return target
