"""Bad inputs, and the folder of good ones that they are made of; docs/bad-input.md has a table of them."""

from __future__ import annotations

import json
import re
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from click.testing import CliRunner, Result
from safetensors.numpy import save

from glocalfair.cli import main
from glocalfair.runs import read_safetensors

SYNTHETIC = "synthetic --set data.rows=800 --set data.clients=4 --set data.features=3"
TRAIN = "run --data {} --label approved --sensitive sex --client hospital --rounds 1"
PREDICT = "predict {} new.csv"


class Case(NamedTuple):
    """A mistake: what it is about, what is wrong, the command, and what spoils the folder before."""

    area: str
    what: str
    command: str
    spoil: Callable[[Path], Any] = lambda folder: None


def glocalfair(command: str, *more: str) -> Result:
    """Run a command in this process, as it is printed in the table."""
    return CliRunner(env={"COLUMNS": "100"}).invoke(main, [*command.split(), *more], prog_name="glocalfair")


def good_folder(folder: Path) -> None:
    """Make a table, a new table to predict, a finished run, one that was interrupted, and a bundle."""
    from tests.frame.people import people

    people(60).drop("person_id", "name", "born", "country", "letter").write_csv(folder / "people.csv")
    people(20).write_csv(folder / "new.csv")
    done = glocalfair(TRAIN.format(folder / "people.csv"), "--output", str(folder / "run"), "--quiet")
    assert done.exit_code == 0, done.output
    shutil.copytree(folder / "run", folder / "half")
    (folder / "half" / "result.json").unlink()
    shutil.copy(folder / "run" / "model.glocalfair", folder / "model.glocalfair")


def text(name: str, content: str | bytes) -> Callable[[Path], Any]:
    """Write a file."""
    return lambda folder: (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())


def edited(name: str, old: str, new: str) -> Callable[[Path], Any]:
    """Change a text file by a regular expression."""

    def spoil(folder: Path) -> None:
        before = (folder / name).read_text()
        after = re.sub(old, new, before)
        assert before != after, (name, old)
        (folder / name).write_text(after)

    return spoil


def damaged(name: str, change: Callable[[dict[str, Any], dict[str, Any]], Any]) -> Callable[[Path], Any]:
    """Change the tensors or the header of one of our safetensors files."""

    def spoil(folder: Path) -> None:
        tensors, header = read_safetensors(folder / name)
        change(tensors, header)
        (folder / name).write_bytes(save(tensors, {"glocalfair": json.dumps(header)}))

    return spoil


def raw(header: Any, body: bytes = b"", length: int | None = None) -> bytes:
    """Return a safetensors file with any header, which may lie about its own length."""
    encoded = json.dumps(header).encode()
    return struct.pack("<Q", len(encoded) if length is None else length) + encoded + body


def first(header: dict[str, Any], *path: Any, value: Any) -> None:
    """Set a value deep in a header."""
    for key in path[:-1]:
        header = header[key]
    header[path[-1]] = value


def pictures(labels: str, **files: bytes) -> Callable[[Path], Any]:
    """Make a folder of pictures with its table and an experiment on it; the cache stays out of the way."""

    def spoil(folder: Path) -> None:
        (folder / "pictures").mkdir()
        (folder / "pictures" / "labels.csv").write_text(labels)
        for name, content in files.items():
            (folder / "pictures" / f"{name}.png").write_bytes(content)
        data = 'name = "folder"\nroot = "pictures"\ncache = "cache"\nsensitive = ["sex"]\nside = 32'
        (folder / "bad.toml").write_text(f"[data]\n{data}\n")

    return spoil


LABELS = "file,label,sex\na.png,1,f\nb.png,0,m\n"
CHECKPOINT = "half/checkpoint.safetensors"
BUNDLE = "model.glocalfair"
HUGE = {"a": {"dtype": "F32", "shape": [10**12], "data_offsets": [0, 4 * 10**12]}, "__metadata__": {"glocalfair": "{}"}}

CASES = [
    Case("command", "no such command", "rum adult"),
    Case("command", "no such option", "run adult --metod fedavg"),
    Case("command", "a word for a number", "run adult --rounds many"),
    Case("command", "no experiment", "run"),
    Case("command", "no such experiment", "run adlut"),
    Case("command", "no such method", "run adult --method fedavgg"),
    Case("command", "no such partition", "run adult --partition dirichle"),
    Case("command", "an option that the partition ignores", "run adult --clients 9"),
    Case("command", "a setting without a value", "run adult --set train.lr"),
    Case("command", "a setting without a section", "run adult --set lr=1"),
    Case("command", "no such run", "run --resume nowhere"),
    Case("command", "resume with other settings", "run adult --resume run"),
    Case("command", "a directory that holds a run", f"run {SYNTHETIC} --output run"),
    Case("command", "a file where a directory should be", f"run {SYNTHETIC} --output people.csv"),
    Case("command", "a report of nothing", "report nowhere"),
    Case("command", "a card of nothing", "card nowhere"),
    Case("command", "a threshold above 1", "predict model.glocalfair new.csv --threshold 3"),
    Case("command", "a spreadsheet as output", "predict model.glocalfair new.csv -o out.xlsx"),
    Case("command", "an audit without a label", "audit new.csv --sensitive sex"),
    Case("command", "no such method to compare", "compare adult --methods fedavg,fedavgg --seeds 1"),
    Case("command", "no such list", "list metods"),
    Case("config", "not TOML", "run bad.toml", text("bad.toml", "[train\n")),
    Case("config", "not text", "run bad.toml", text("bad.toml", b"\xff\xfe\x00")),
    Case("config", "brackets without end", "run bad.toml", text("bad.toml", "a = " + "[" * 5000)),
    Case("config", "no such section", "run bad.toml", text("bad.toml", "[trian]\nlr = 1\n")),
    Case("config", "no such key", "run bad.toml", text("bad.toml", "[train]\nround = 1\n")),
    Case("config", "a value for a section", "run bad.toml", text("bad.toml", "train = 3\n")),
    Case("config", "a word for a number", "run bad.toml", text("bad.toml", '[train]\nlr = "fast"\n')),
    Case("config", "a date for a number", "run bad.toml", text("bad.toml", "[train]\nrounds = 1979-05-27\n")),
    Case("config", "no rounds", "run bad.toml", text("bad.toml", "[train]\nrounds = 0\n")),
    Case("config", "learning rate NaN", "run bad.toml", text("bad.toml", "[train]\nlr = nan\n")),
    Case("config", "learning rate infinite", "run bad.toml", text("bad.toml", "[train]\nlr = inf\n")),
    Case("config", "nobody takes part", "run adult --set train.participation=0"),
    Case("config", "a negative seed", "run adult --seed -1"),
    Case("config", "empty layers", f"run {SYNTHETIC} --set model.hidden=[0]"),
    Case("config", "no such model", f"run {SYNTHETIC} --set model.name=mpl"),
    Case("config", "a model that cannot be imported", f"run {SYNTHETIC} --set model.name=nowhere:make"),
    Case("config", "no such data set", "run adult --set data.name=adlt"),
    Case("config", "no such data option", "run adult --set data.rase=multi"),
    Case("config", "no such attribute", 'run adult --set data.sensitive=["sexx"]'),
    Case("config", "no such method setting", "run adult --set method.tau=1"),
    Case("config", "γ below 0", "run adult --method glocalfair --set method.gamma=-1"),
    Case("config", "more trimmed than there is", "run adult --set server.trim=0.5"),
    Case("config", "no such way to combine", "run adult --set server.combine=mode"),
    Case("config", "a negative bound", "run adult --set server.max_norm=-1"),
    Case("config", "start from nothing", f"run {SYNTHETIC} --set model.warm_start=none.safetensors"),
    Case("config", "start from another model", f"run {SYNTHETIC} --set model.warm_start=run/model.safetensors"),
    Case("table", "no such file", TRAIN.format("none.csv")),
    Case("table", "a spreadsheet", TRAIN.format("bad.xlsx"), text("bad.xlsx", b"PK")),
    Case("table", "empty", TRAIN.format("bad.csv"), text("bad.csv", "")),
    Case("table", "a header alone", TRAIN.format("bad.csv"), text("bad.csv", "sex,hospital,approved\n")),
    Case("table", "a row too long", TRAIN.format("bad.csv"), text("bad.csv", "sex,approved\nF,yes\nM,no,3\n")),
    Case("table", "not UTF-8", TRAIN.format("bad.csv"), text("bad.csv", "sex,approved\ncafé,yes\n".encode("latin-1"))),
    Case("table", "not Parquet", TRAIN.format("bad.parquet"), text("bad.parquet", b"PAR1 not really PAR1")),
    Case("table", "no such label", "run --data people.csv --label aproved"),
    Case("table", "no such sensitive column", "run --data people.csv --label approved --sensitive sexx"),
    Case("table", "more than two labels", "run --data people.csv --label race"),
    Case("table", "one label", TRAIN.format("people.csv"), edited("people.csv", ",no\n", ",yes\n")),
    Case("table", "no label in any row", TRAIN.format("people.csv"), edited("people.csv", ",(no|yes)\n", ",\n")),
    Case("table", "one group", TRAIN.format("people.csv"), edited("people.csv", "Female", "Male")),
    Case("table", "a number as group", "run --data people.csv --label approved --sensitive age"),
    Case("table", "a client for every row", "run --data new.csv --label approved --client name"),
    Case("table", "columns that the model needs", PREDICT.format("run"), text("new.csv", "age\n31\n")),
    Case("table", "a column that would be written", PREDICT.format("run"), edited("new.csv", "born", "prediction")),
    Case("pictures", "no such folder", "run bad.toml", text("bad.toml", '[data]\nname = "folder"\nroot = "none"\n')),
    Case("pictures", "too small", "run bad.toml", text("bad.toml", '[data]\nname = "folder"\nside = 8\n')),
    Case("pictures", "all files broken", "run bad.toml", pictures(LABELS, a=b"\x89PNG\r\n", b=b"GIF89a")),
    Case("pictures", "no file is there", "run bad.toml", pictures(LABELS)),
    Case("pictures", "no column of files", "run bad.toml", pictures("picture,label,sex\na.png,1,f\n", a=b"")),
    Case("pictures", "no column of groups", "run bad.toml", pictures("file,label\na.png,1\nb.png,0\n", a=b"", b=b"")),
    Case("pictures", "an empty table", "run bad.toml", pictures("")),
    Case("pictures", "weights that are none", "run faces --set model.pretrained=none.pt"),
    Case("checkpoint", "cut off", "run --resume half", lambda f: (f / CHECKPOINT).write_bytes(b"\x10\0\0")),
    Case("checkpoint", "no round", "run --resume half", damaged(CHECKPOINT, lambda t, h: h.pop("round"))),
    Case(
        "checkpoint", "a word for the round", "run --resume half", damaged(CHECKPOINT, lambda t, h: h.update(round="x"))
    ),
    Case("checkpoint", "a later round", "run --resume half", damaged(CHECKPOINT, lambda t, h: h.update(round=99))),
    Case("checkpoint", "no weights", "run --resume half", damaged(CHECKPOINT, lambda t, h: t.pop("server"))),
    Case(
        "checkpoint",
        "another model's weights",
        "run --resume half",
        damaged(CHECKPOINT, lambda t, h: t.update(server=np.zeros(3, np.float32))),
    ),
    Case(
        "checkpoint",
        "weights NaN",
        "run --resume half",
        damaged(CHECKPOINT, lambda t, h: t.update(server=t["server"] * np.nan)),
    ),
    Case(
        "checkpoint",
        "another method's memory",
        "run --resume half",
        damaged(CHECKPOINT, lambda t, h: t.update({"server/lam": np.zeros(2)})),
    ),
    Case("checkpoint", "the run's settings broken", "run --resume half", text("half/config.toml", "[")),
    Case("checkpoint", "the run's people broken", "run --resume half", text("half/federation.json", "{")),
    Case(
        "checkpoint", "the run's data gone", "run --resume half", edited("half/config.toml", "people.csv", "gone.csv")
    ),
    Case("checkpoint", "the result broken", "run --resume run", text("run/result.json", "[1")),
    Case(
        "checkpoint",
        "code to import",
        "run --resume half",
        edited("half/config.toml", r'(\[model\]\nname = )"mlp"', r'\1"evil:make"'),
    ),
    Case(
        "checkpoint",
        "code to import as a method",
        "run --resume half",
        edited("half/config.toml", r'(\[method\]\nname = )"\w+"', r'\1"evil:Method"'),
    ),
    Case("checkpoint", "a report of a broken run", "report run", text("run/rounds.jsonl", "{\n")),
    Case("bundle", "no such file", PREDICT.format("none.glocalfair")),
    Case("bundle", "another file", PREDICT.format("people.csv")),
    Case("bundle", "a header longer than the file", PREDICT.format(BUNDLE), text(BUNDLE, raw({}, length=2**60))),
    Case("bundle", "a tensor of 4 TB in 100 bytes", PREDICT.format(BUNDLE), text(BUNDLE, raw(HUGE))),
    Case("bundle", "a pickle", PREDICT.format(BUNDLE), text(BUNDLE, b"cos\nsystem\n(S'touch executed'\ntR.")),
    Case("bundle", "a ZIP archive", PREDICT.format(BUNDLE), text(BUNDLE, b"PK\x03\x04" + b"\0" * 60)),
    Case("bundle", "only weights", PREDICT.format("run/model.safetensors")),
    Case("bundle", "no encoder", PREDICT.format(BUNDLE), damaged(BUNDLE, lambda t, h: h.pop("encoder"))),
    Case("bundle", "no schema", PREDICT.format(BUNDLE), damaged(BUNDLE, lambda t, h: h.update(schema=3))),
    Case(
        "bundle",
        "a number of 400 digits",
        PREDICT.format(BUNDLE),
        damaged(BUNDLE, lambda t, h: first(h, "encoder", "mean", 0, value=10**400)),
    ),
    Case(
        "bundle",
        "layers of 10⁹ units",
        PREDICT.format(BUNDLE),
        damaged(BUNDLE, lambda t, h: first(h, "model", "hidden", value=[10**9] * 2)),
    ),
    Case(
        "bundle",
        "weights of another shape",
        PREDICT.format(BUNDLE),
        damaged(BUNDLE, lambda t, h: t.update({"layers.0.bias": np.zeros(3)})),
    ),
    Case(
        "bundle",
        "code to import",
        PREDICT.format(BUNDLE),
        damaged(BUNDLE, lambda t, h: first(h, "model", "name", value="evil:make")),
    ),
]
