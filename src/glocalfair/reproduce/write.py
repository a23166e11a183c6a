"""Writes a sheet to disk in all its forms."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from glocalfair.reproduce.notes import notes, title
from glocalfair.reproduce.render import comma_separated, latex, markdown
from glocalfair.reproduce.sheet import Sheet
from glocalfair.runs import jsonable, write_atomically

SCHEMA = 1


def write(sheet: Sheet, folder: Path) -> Path:
    """Write the table as Markdown, LaTeX, CSV and JSON; return the Markdown file."""
    folder.mkdir(parents=True, exist_ok=True)
    told = json.dumps(to_dict(sheet), ensure_ascii=False, indent=1, allow_nan=False)
    texts = {"tex": latex(sheet), "csv": comma_separated(sheet), "json": f"{told}\n", "md": markdown(sheet)}
    for ending, text in texts.items():
        write_atomically(folder / f"{sheet.stem}.{ending}", text.encode())
    return folder / f"{sheet.stem}.md"


def to_dict(sheet: Sheet) -> dict[str, Any]:
    """Return plain values, for JSON; NaN becomes None. Each federation holds a comparison as `compare` writes it."""
    told = {
        "schema": SCHEMA,
        "table": sheet.table.name,
        "title": title(sheet),
        "claim": sheet.table.claim,
        "data": sheet.source.name,
        "paper_data": sheet.paper_source.name,
        "budget": {"name": sheet.budget_name, **asdict(sheet.budget)},
        "made": asdict(sheet.made),
        "notes": list(notes(sheet)),
        "federations": [
            {
                "title": part.setting.title,
                "note": part.setting.note,
                "noise_floor": part.floors,
                "rows": [
                    {
                        "label": row.label,
                        "paper_row": row.paper,
                        "cells": {
                            cell.figure.key: {
                                "ratio": cell.ratio,
                                "paper": cell.paper,
                                "paper_ratio": cell.paper_ratio,
                                "contradicted": cell.doubted,
                            }
                            for cell in cells
                        },
                    }
                    for row, _, cells in sheet.lines(part)
                ],
                "comparison": part.comparison.to_dict(),
            }
            for part in sheet.parts
        ],
    }
    plain: dict[str, Any] = jsonable(told)
    return plain
