"""Where encoded pictures come from: files in a folder, or one compact ``.npz`` of concatenated JPEG bytes."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from glocalfair.errors import GlocalfairError

SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".webp")
LAYOUT = ("jpeg", "offset", "name")


class Source(Protocol):
    """Encoded pictures by number."""

    @property
    def names(self) -> Sequence[str]:
        """What the pictures are called."""

    def read(self, number: int) -> bytes:
        """Return one picture's bytes."""

    def fingerprint(self) -> str:
        """Return a text that changes when the pictures do."""


@dataclass(frozen=True)
class Files:
    """Pictures in files below a folder."""

    root: Path
    names: Sequence[str]

    def read(self, number: int) -> bytes:
        """See `Source.read`."""
        return (self.root / self.names[number]).read_bytes()

    def fingerprint(self) -> str:
        """Digest names, sizes and times of change: reading 200,000 pictures to see that they are old takes minutes."""
        digest = hashlib.blake2b(digest_size=16)
        for name in self.names:
            try:
                stat = (self.root / name).stat()
                digest.update(f"{name}\0{stat.st_size}\0{stat.st_mtime_ns}\n".encode())
            except OSError:
                digest.update(f"{name}\0missing\n".encode())
        return digest.hexdigest()


@dataclass(frozen=True, eq=False)
class Compact:
    """Pictures in a ``.npz`` file: ``jpeg`` (bytes), ``offset`` (rows + 1) and ``name``, beside arrays of labels."""

    path: Path
    arrays: Mapping[str, np.ndarray[Any, Any]]

    @classmethod
    def open(cls, path: Path, needed: Sequence[str]) -> Compact:
        """Read the file; nothing in it is executed."""
        try:
            with np.load(path, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
        except (OSError, ValueError, EOFError) as error:
            raise GlocalfairError(f"Cannot read '{path}': {error}.") from error
        missing = [name for name in (*LAYOUT, *needed) if name not in arrays]
        if missing:
            raise GlocalfairError(f"'{path}' has no array '{missing[0]}'. It needs {', '.join((*LAYOUT, *needed))}.")
        rows = len(arrays["name"])
        for name in needed:
            if name != "attr_names" and len(arrays[name]) != rows:
                raise GlocalfairError(f"'{path}': '{name}' has {len(arrays[name])} rows, 'name' has {rows}.")
        offset = arrays["offset"]
        if len(offset) != rows + 1 or offset[0] != 0 or (np.diff(offset) < 0).any() or offset[-1] > len(arrays["jpeg"]):
            raise GlocalfairError(f"'{path}': 'offset' must rise from 0, with one entry more than there are pictures.")
        return cls(path, arrays)

    @property
    def names(self) -> Sequence[str]:
        """Names of the original files."""
        return [str(name) for name in self.arrays["name"]]

    def read(self, number: int) -> bytes:
        """See `Source.read`."""
        begin, end = self.arrays["offset"][number : number + 2]
        return self.arrays["jpeg"][begin:end].tobytes()

    def fingerprint(self) -> str:
        """Digest the file's name, size and time of change."""
        stat = self.path.stat()
        return hashlib.blake2b(
            f"{self.path.name}\0{stat.st_size}\0{stat.st_mtime_ns}".encode(), digest_size=16
        ).hexdigest()


def picture_files(root: Path) -> list[str]:
    """List the pictures below a folder, relative to it, sorted."""
    return sorted(str(p.relative_to(root)) for p in root.rglob("*") if p.suffix.lower() in SUFFIXES and p.is_file())


def compact_file(root: Path) -> Path | None:
    """Return the compact file in a folder, if there is one."""
    return next(iter(sorted(root.glob("*_jpeg.npz"))), None)
