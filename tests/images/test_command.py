"""``glocalfair data``: where to get pictures, what is there, decode it once."""

from click.testing import CliRunner

from glocalfair.cli import main
from tests.images import samples


def call(*arguments):
    done = CliRunner().invoke(main, ["data", *map(str, arguments)])
    return done.exit_code, done.output


def test_get_check_and_prepare(tmp_path, monkeypatch):
    monkeypatch.setenv("GLOCALFAIR_CACHE", str(tmp_path / "cache"))
    root = samples.utkface(tmp_path / "faces")
    code, text = call("get", "utkface")
    assert code == 0 and "susanqq.github.io" in text and "Licence: non-commercial" in text
    code, text = call("check", "utkface", "--root", root)
    assert code == 0 and "42 pictures" in text and "2 left out: their names do not say age" in text
    assert not (tmp_path / "cache").exists(), "check writes nothing"
    arguments = ("prepare", "utkface", "--root", root, "--set", "side=32", "--set", "max_corrupt=0.1")
    code, text = call(*arguments)
    assert code == 0 and "40 pictures of 32 × 32 decoded" in text and "MB" in text
    assert "1 picture left out: unreadable (50_0_0_20190000.jpg" in text.replace("\n", " ")
    assert "were there already" in call(*arguments)[1]


def test_mistakes(tmp_path):
    assert "Unknown set of pictures 'utkfac'. Did you mean 'utkface'?" in call("check", "utkfac")[1]
    assert "'--set' must be key=value" in call("prepare", "utkface", "--set", "side")[1]
    assert "is not a folder" in call("check", "celeba", "--root", tmp_path / "nowhere")[1]
    code, text = call("prepare", "utkface", "--root", tmp_path, "--set", "side=8")
    assert code != 0 and "'data.side' must be" in text
