"""Sets of pictures: every layout, whatever is wrong with it."""

import io
import os
import shutil

import numpy as np
import pytest
from PIL import Image

from glocalfair.data import PartitionSpec, SplitSpec, build, load
from glocalfair.data.images.cache import decode
from glocalfair.data.images.listing import notices
from glocalfair.errors import GlocalfairError
from tests.images import samples


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("GLOCALFAIR_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_utkface_reads_names_and_reports_what_it_cannot_use(tmp_path):
    root = samples.utkface(tmp_path / "faces")
    data = load("utkface", root=str(root), side=32, max_corrupt=0.1)
    assert data.images.shape == (40, 3, 32, 32) and data.images.dtype == np.uint8
    # 20 … 59 years: those of 40 and older are positive; gender 0 in a name is male.
    assert data.label.sum() == 20
    assert [a.name for a in data.attributes] == ["gender", "race"]
    assert data.groups[:2].tolist() == [[1, 1], [0, 0]]
    told = data.about["pictures"]
    assert len(told["left_out"]["their names do not say age, gender and race"]) == 2
    assert told["duplicates"] == told["duplicates_with_other_labels"] == 1
    assert [line.split(":")[0] for line in told["corrupt"]] == ["50_0_0_20190000.jpg"]
    assert len(notices(told)) == 3


def test_too_many_corrupt_files_are_an_error_that_names_them(tmp_path):
    root = samples.utkface(tmp_path / "faces")
    with pytest.raises(GlocalfairError, match=r"1 of 42 pictures cannot be read \(50_0_0_20190000.jpg: .*At most 0"):
        load("utkface", root=str(root), side=32, max_corrupt=0.0)


def test_a_cache_is_used_again_and_made_anew_when_the_pictures_change(tmp_path, cache):
    root = samples.utkface(tmp_path / "faces")
    options = {"root": str(root), "side": 32, "max_corrupt": 0.1}
    first = load("utkface", **options)
    assert first.about["pictures"]["fresh"]
    again = load("utkface", **options)
    assert not again.about["pictures"]["fresh"]
    np.testing.assert_array_equal(first.images, again.images)
    assert load("utkface", **{**options, "side": 48}).images.shape[-1] == 48
    (root / "77_0_0_20200000.jpg").write_bytes(samples.jpeg(777))
    assert len(load("utkface", **options)) == 41
    assert len(list(cache.iterdir())) == 3 and not list(cache.glob(".*")), "a temporary folder was left"


def test_an_interrupted_decoding_leaves_nothing_that_looks_like_a_cache(tmp_path, cache, monkeypatch):
    root = samples.utkface(tmp_path / "faces")

    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    from glocalfair.data.images import utkface

    options = utkface.UTKFaceOptions(root=str(root), side=32, max_corrupt=0.1)
    with pytest.raises(KeyboardInterrupt):
        utkface.prepare(options, stop)
    assert list(cache.iterdir()) == []
    assert len(utkface.load(options)) == 40


def test_a_damaged_cache_is_named(tmp_path, cache):
    root = samples.utkface(tmp_path / "faces")
    load("utkface", root=str(root), side=32, max_corrupt=0.1)
    (next(cache.iterdir()) / "images.npy").write_bytes(b"rubbish")
    with pytest.raises(GlocalfairError, match=r"is damaged .* Remove it"):
        load("utkface", root=str(root), side=32, max_corrupt=0.1)


def test_the_cache_cannot_be_changed_by_a_run(tmp_path):
    root = samples.utkface(tmp_path / "faces")
    options = {"root": str(root), "side": 32, "max_corrupt": 0.1}
    data = load("utkface", **options)
    data.images[:] = 0
    assert load("utkface", **options).images.max() > 0


def test_celeba_in_the_official_layout(tmp_path):
    root = samples.celeba(tmp_path / "celeba")
    data = load("celeba", root=str(root), side=32, silos=3)
    assert len(data) == 47 and data.about["pictures"]["left_out"] == {
        "listed, but not in img_align_celeba or without a person": ["000006.jpg"]
    }
    assert data.label[:4].tolist() == [1, 0, 0, 1]
    assert [a.values for a in data.attributes] == [("female", "male"), ("adult", "young")]
    assert len(np.unique(data.unit)) == 12 and data.owner_names == ("silo-00", "silo-01", "silo-02")
    other = load("celeba", root=str(root), side=32, label="Young", sensitive=["Smiling"])
    assert other.attributes[0].values == ("no", "yes")
    with pytest.raises(GlocalfairError, match="Did you mean 'Smiling'"):
        load("celeba", root=str(root), side=32, label="Smilling")
    (root / "list_attr_celeba.txt").write_text("1\nMale Smiling Young\n000001.jpg 1 0 1\n")
    with pytest.raises(GlocalfairError, match="line 3: a name and 3 values of 1 or -1"):
        load("celeba", root=str(root), side=32)


@pytest.mark.parametrize("partition", [PartitionSpec("by_column", min_rows=1), PartitionSpec("iid", min_rows=1)])
def test_nobody_is_in_two_places(tmp_path, partition):
    data = load("faces", rows=600, people=80)
    for seed in range(3):
        federation, _ = build(data, partition, SplitSpec(test=0.2), seed)
        places = [federation.test] + [part for c in federation.clients for part in (c.train, c.validation, c.test)]
        people = [set(data.unit[rows].tolist()) for rows in places]
        assert sum(map(len, people)) == len(set().union(*people)) == 80
        assert sum(map(len, places)) == 600
        assert 0.1 < len(federation.test) / 600 < 0.3


def test_compact_layouts(tmp_path):
    numbers = np.arange(10)
    samples.compact(tmp_path / "utkface" / "utkface64_jpeg.npz", age=numbers * 8, gender=numbers % 2, race=numbers % 5)
    data = load("utkface", root=str(tmp_path / "utkface"), side=40)
    assert data.label.sum() == 5
    np.testing.assert_array_equal(data.images[3], decode(samples.jpeg(3), 40))
    attr = np.stack([numbers % 2, numbers % 3 == 0, numbers % 4 == 0], 1).astype(np.uint8)
    samples.compact(
        tmp_path / "celeba" / "celeba_jpeg.npz",
        attr=attr,
        attr_names=np.array(["Male", "Smiling", "Young"]),
        identity=numbers // 2,
    )
    assert load("celeba", root=str(tmp_path / "celeba"), side=32).label.sum() == 4
    samples.compact(tmp_path / "bad" / "utk_jpeg.npz", age=numbers, gender=numbers[:5], race=numbers)
    with pytest.raises(GlocalfairError, match="'gender' has 5 rows"):
        load("utkface", root=str(tmp_path / "bad"))


def test_a_folder_of_ones_own(tmp_path):
    root = tmp_path / "mine"
    root.mkdir()
    lines = ["file,sick,sex,age,hospital,patient"]
    for i in range(30):
        name = f"{i}.png"
        if i != 7:
            (root / name).write_bytes(samples.jpeg(i, (60, 50), "L" if i % 2 else "RGB"))
        lines.append(f"{name},{'' if i == 9 else ('yes', 'no')[i % 2]},{'FM'[i % 3 == 0]},{20 + i},H{i % 3},p{i // 2}")
    (root / "labels.csv").write_text("\n".join(lines) + "\n")
    options = {"root": str(root), "side": 32, "label": "sick", "sensitive": ["sex", "age:<35"], "client": "hospital"}
    data = load("folder", **options)
    assert len(data) == 28 and data.label.sum() == 15 and data.owner_names == ("H0", "H1", "H2")
    assert [a.values for a in data.attributes] == [("F", "M"), ("<35", ">=35")]
    assert data.about["pictures"]["left_out"] == {"no such file": ["7.png"], "no label": ["9.png"]}
    assert len(np.unique(load("folder", **{**options, "client": None, "unit": "patient"}).unit)) == 15
    with pytest.raises(GlocalfairError, match=r"Unknown column for 'data.file' 'path'"):
        load("folder", **options, file="path")


def test_where_to_get_it_is_part_of_the_error(tmp_path, monkeypatch):
    monkeypatch.delenv("GLOCALFAIR_DATA", raising=False)
    with pytest.raises(GlocalfairError, match=r"GLOCALFAIR_DATA.*susanqq\.github\.io"):
        load("utkface")
    (tmp_path / "celeba").mkdir()
    monkeypatch.setenv("GLOCALFAIR_DATA", str(tmp_path))
    with pytest.raises(GlocalfairError, match="neither img_align_celeba nor a compact"):
        load("celeba")
    with pytest.raises(GlocalfairError, match=r"'data\.side' must be a whole number of at least 32"):
        load("utkface", side=16)


def test_pictures_are_cut_square_and_upright():
    wide = np.zeros((40, 80, 3), dtype=np.uint8)
    wide[:, 20:60] = 200
    buffer = io.BytesIO()
    Image.fromarray(wide).save(buffer, "PNG")
    found = decode(buffer.getvalue(), 40)
    assert found.shape == (3, 40, 40) and found.min() == 200


def test_the_shortcut_of_made_up_faces_is_what_it_says():
    for shortcut in (0.0, 1.0):
        data = load("faces", rows=1500, people=1500, shortcut=shortcut)
        women, men = (data.label[data.groups[:, 0] == g].mean() for g in (0, 1))
        assert abs(women - (0.5 + 0.4 * shortcut)) < 0.07 and abs(men - (0.5 - 0.4 * shortcut)) < 0.07
    again = load("faces", rows=50)
    np.testing.assert_array_equal(again.images, load("faces", rows=50).images)
    assert (again.images != load("faces", rows=50, seed=1).images).any()


@pytest.mark.parametrize(("name", "rows", "positive"), [("utkface", 23_314, 0.305), ("celeba", 19_999, 0.484)])
def test_real_faces(name, rows, positive, tmp_path):
    root = os.environ.get("GLOCALFAIR_DATA", "")
    if not root or not os.path.isdir(os.path.join(root, name)):  # noqa: PTH112, PTH118
        pytest.skip(f"needs GLOCALFAIR_DATA with the folder {name}")
    data = load(name, side=32)
    assert len(data) == rows and abs(data.label.mean() - positive) < 0.002
    partition = PartitionSpec("by_column", min_rows=1) if name == "celeba" else PartitionSpec("sizes", clients=20)
    federation, _ = build(data, partition, SplitSpec(), seed=0)
    assert len(federation.clients) == (100 if name == "celeba" else 20)
    assert (federation.unused > 0) == (name == "utkface")
    shutil.rmtree(tmp_path / "cache")
