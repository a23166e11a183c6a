"""Pictures decoded once into a memory-mapped array, which every later run opens in a moment.

A cache is a folder with ``images.npy`` (uint8, ``[rows, 3, side, side]``) and ``index.json`` (which pictures of the
source its rows are, and which could not be used). It is written under another name and renamed when it is complete,
so that nobody ever reads a half-written one. Its name holds a digest of the source, the side and this code's version.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from glocalfair.cores import cores
from glocalfair.data.images.sources import Source
from glocalfair.errors import GlocalfairError

VERSION = 1
CHUNK = 512
Pixels = npt.NDArray[np.uint8]
OnProgress = Callable[[int, int], None]
"""Called with the pictures done and all pictures."""


@dataclass(frozen=True)
class Problems:
    """Pictures of a source that are not in its cache."""

    corrupt: tuple[str, ...] = ()
    """Names and reasons."""
    duplicates: tuple[tuple[int, int], ...] = ()
    """Numbers of a dropped picture and of the earlier one with the same bytes."""


@dataclass(frozen=True, eq=False)
class Cache:
    """Decoded pictures: row i is picture ``kept[i]`` of the source."""

    path: Path
    images: Pixels
    kept: npt.NDArray[np.int64]
    problems: Problems
    fresh: bool
    """Whether it was decoded just now."""

    @property
    def size(self) -> int:
        """Bytes on disk."""
        return sum(file.stat().st_size for file in self.path.iterdir())


def default_folder() -> Path:
    """Return where caches are kept: ``$GLOCALFAIR_CACHE``, or glocalfair in the user's cache folder."""
    given = os.environ.get("GLOCALFAIR_CACHE")
    if given:
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "glocalfair"


def open_or_decode(
    source: Source,
    side: int,
    folder: Path,
    name: str,
    max_corrupt: float = 0.01,
    on_progress: OnProgress | None = None,
) -> Cache:
    """Open the cache of a source, or decode the pictures into one.

    Parameters
    ----------
    source
        The encoded pictures.
    side
        Width and height of the decoded ones: the central square, resized.
    folder
        Where caches are kept.
    name
        What the cache's folder is called, before the digest.
    max_corrupt
        The share of pictures that may be unreadable; more of them is an error.
    on_progress
        Called after each chunk.
    """
    digest = hashlib.blake2b(f"{VERSION}\0{side}\0{source.fingerprint()}".encode(), digest_size=8).hexdigest()
    path = folder / f"{name}-{side}px-{digest}"
    fresh = not (path / "index.json").exists()
    if fresh:
        _write(source, side, path, on_progress)
    cache = _open(path, fresh)
    limit = int(max_corrupt * len(source.names))
    if len(cache.problems.corrupt) > limit:
        first = "; ".join(cache.problems.corrupt[:3])
        raise GlocalfairError(
            f"{len(cache.problems.corrupt):,} of {len(source.names):,} pictures cannot be read ({first}). At most "
            f"{limit:,} may be: copy the data again, or set 'data.max_corrupt' higher."
        )
    return cache


def _open(path: Path, fresh: bool) -> Cache:
    try:
        index = json.loads((path / "index.json").read_text(encoding="utf-8"))
        # Copy on write: torch wants to share memory that may be written to, and nobody may change the file.
        images = np.load(path / "images.npy", mmap_mode="c")
        kept = np.array(index["kept"], dtype=np.int64)
        if len(kept) != len(images):
            raise ValueError("it has not as many pictures as its index says")
        problems = Problems(tuple(index["corrupt"]), tuple((a, b) for a, b in index["duplicates"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise GlocalfairError(f"The cache '{path}' is damaged ({error}). Remove it: it will be made again.") from error
    return Cache(path, images, kept, problems, fresh)


def _write(source: Source, side: int, path: Path, on_progress: OnProgress | None) -> None:
    """Decode everything into a temporary folder beside `path`, then rename it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}-", dir=path.parent))
    except OSError as error:
        raise GlocalfairError(
            f"Cannot write the picture cache to '{path.parent}': {error.strerror}. Set 'data.cache' to another."
        ) from error
    try:
        _decode_into(temporary, source, side, on_progress)
        try:
            temporary.rename(path)
        except OSError:
            # Somebody else made the same cache meanwhile; theirs is as good.
            if not (path / "index.json").exists():
                raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _decode_into(folder: Path, source: Source, side: int, on_progress: OnProgress | None) -> None:
    total = len(source.names)
    raw = folder / "raw"
    kept: list[int] = []
    corrupt: list[str] = []
    duplicates: list[tuple[int, int]] = []
    first_of: dict[bytes, int] = {}
    with raw.open("wb") as file:
        for number, digest, pixels, reason in _decoded(source, side):
            if reason:
                corrupt.append(f"{source.names[number]}: {reason}")
            elif digest in first_of:
                duplicates.append((number, first_of[digest]))
            else:
                first_of[digest] = number
                kept.append(number)
                file.write(pixels)
            if on_progress is not None and ((number + 1) % CHUNK == 0 or number + 1 == total):
                on_progress(number + 1, total)
    if total and not kept:
        first = "; ".join(corrupt[:3])
        raise GlocalfairError(f"None of {total:,} pictures can be read ({first}). Copy the data again.")
    _as_npy(raw, folder / "images.npy", (len(kept), 3, side, side))
    index = {"kept": kept, "corrupt": corrupt, "duplicates": duplicates}
    (folder / "index.json").write_text(json.dumps(index, ensure_ascii=False), encoding="utf-8")


def _as_npy(raw: Path, target: Path, shape: tuple[int, ...]) -> None:
    """Put the header of a ``.npy`` file before the pixels: how many there are is known at the end only."""
    with target.open("wb") as file, raw.open("rb") as pixels:
        about = {"descr": "|u1", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, about)
        shutil.copyfileobj(pixels, file, 2**22)
        file.flush()
        os.fsync(file.fileno())
    raw.unlink()


def _decoded(source: Source, side: int) -> Iterator[tuple[int, bytes, bytes, str]]:
    """Give number, digest of the bytes, pixels and (if it failed) the reason, in order; decoders share the cores."""
    needs_pillow()

    def one(number: int) -> tuple[int, bytes, bytes, str]:
        try:
            content = source.read(number)
            return number, hashlib.blake2b(content, digest_size=16).digest(), decode(content, side).tobytes(), ""
        # Pillow raises nearly anything on damaged bytes; whatever it is, the picture is what is wrong.
        except Exception as error:
            # Its own words for "not a picture" hold an address in memory.
            words = "not a picture" if type(error).__name__ == "UnidentifiedImageError" else str(error)
            return number, b"", b"", " ".join(words.split())[:120] or type(error).__name__

    with ThreadPoolExecutor(cores()) as pool:
        for begin in range(0, len(source.names), CHUNK):
            yield from pool.map(one, range(begin, min(begin + CHUNK, len(source.names))))


def needs_pillow() -> None:
    """Say what to install if the decoder is missing."""
    try:
        import PIL  # noqa: F401
    except ImportError as error:
        raise GlocalfairError("Pictures need pillow: pip install 'glocalfair[images]'.") from error


def decode(content: bytes, side: int) -> Pixels:
    """Decode one picture: upright, RGB, its central square, resized; ``[3, side, side]``."""
    from PIL import Image, ImageOps

    opened: Any = Image.open(io.BytesIO(content))
    opened.draft("RGB", (side, side))
    picture = ImageOps.exif_transpose(opened).convert("RGB")
    width, height = picture.size
    square = min(width, height)
    left, top = (width - square) // 2, (height - square) // 2
    box = (left, top, left + square, top + square)
    if square != side:
        picture = picture.resize((side, side), Image.Resampling.BILINEAR, box=box, reducing_gap=2.0)
    elif width != height:
        picture = picture.crop(box)
    return np.ascontiguousarray(np.asarray(picture, dtype=np.uint8).transpose(2, 0, 1))
