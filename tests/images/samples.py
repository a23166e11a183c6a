"""Small sets of pictures in the original layouts, written by the tests themselves."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("PIL", reason="needs the images extra")
from PIL import Image


def jpeg(seed: int, size: tuple[int, int] = (40, 40), mode: str = "RGB") -> bytes:
    """A picture of noise: its bytes differ for every seed."""
    rng = np.random.default_rng(seed)
    shape = (size[1], size[0], 3)
    buffer = io.BytesIO()
    Image.fromarray(rng.integers(0, 255, shape, dtype=np.uint8)).convert(mode).save(buffer, "JPEG")
    return buffer.getvalue()


def utkface(root: Path, rows: int = 40) -> Path:
    """Original names; also two malformed ones, one byte copy with another age and one file of rubbish."""
    root.mkdir(parents=True, exist_ok=True)
    for i in range(rows):
        (root / f"{20 + i}_{i % 2}_{i % 5}_2017{i:04d}.jpg.chip.jpg").write_bytes(jpeg(i))
    (root / "39_1_20170116174525125.jpg.chip.jpg").write_bytes(jpeg(900))
    (root / "nobody.jpg").write_bytes(jpeg(901))
    (root / "99_0_0_20180000.jpg").write_bytes(jpeg(0))
    (root / "50_0_0_20190000.jpg").write_bytes(b"\xff\xd8 this is no picture")
    return root


def celeba(root: Path, people: int = 12, each: int = 4) -> Path:
    """The official layout; one listed picture is missing."""
    folder = root / "Img" / "img_align_celeba"
    folder.mkdir(parents=True)
    names = ("Male", "Smiling", "Young")
    lines, identities = [str(people * each), " ".join(names)], []
    for i in range(people * each):
        name, person = f"{i + 1:06d}.jpg", i // each
        values = (person % 2, i % 3 == 0, person % 3 == 0)
        lines.append(f"{name}  " + " ".join("1" if v else "-1" for v in values))
        identities.append(f"{name} {person + 100}")
        if i != 5:
            (folder / name).write_bytes(jpeg(i, (178, 218)))
    (root / "list_attr_celeba.txt").write_text("\n".join(lines) + "\n")
    (root / "identity_CelebA.txt").write_text("\n".join(identities) + "\n")
    return root


def compact(path: Path, rows: int = 10, **arrays: np.ndarray) -> Path:
    """The compact layout."""
    path.parent.mkdir(parents=True, exist_ok=True)
    parts = [jpeg(i) for i in range(rows)]
    offset = np.cumsum([0, *map(len, parts)])
    names = np.array([f"{i:06d}.jpg" for i in range(rows)])
    np.savez(path, jpeg=np.frombuffer(b"".join(parts), dtype=np.uint8), offset=offset, name=names, **arrays)
    return path
