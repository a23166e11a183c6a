"""The verdict: what is said about known counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from glocalfair.report.html.arms import Arm, group
from glocalfair.report.html.load import find, load
from glocalfair.report.html.verdict import judge

from .samples import FAIR, write_pair, write_run


def arms(*paths: Path) -> list[Arm]:
    return group([load(path) for path in find(paths)])


def test_the_headline_compares_with_fedavg(tmp_path: Path) -> None:
    verdict = judge(arms(write_pair(tmp_path)))
    ((first, second),) = verdict.headlines
    assert first == "Women are 6 points less likely to be recognised as high earners than men; with fedavg: 12."
    assert second == "Women are 1 point less likely to be wrongly taken for high earners than men; with fedavg: 2."
    assert verdict.subject.method == "glocalfair"


def test_without_a_baseline_the_wider_gap_leads(tmp_path: Path) -> None:
    verdict = judge(arms(write_run(tmp_path / "r", {"Female": (0.6, 0.05), "Male": (0.61, 0.15)}, method="fairfed")))
    ((first, second),) = verdict.headlines
    assert first == "Women are 10 points less likely to be wrongly taken for high earners than men."
    assert second.startswith("Women are 1 point less likely to be recognised")
    assert any("add a run of fedavg" in text for text in verdict.warnings)


def test_other_data_have_groups_and_positives(tmp_path: Path) -> None:
    made = write_run(tmp_path / "r", {"b1": (0.6, 0.1), "b2": (0.9, 0.1), "b3": (0.7, 0.1)}, data="mine", attribute="b")
    ((first, _),) = judge(arms(made)).headlines
    assert first == "The group ‘b1’ is 30 points less likely to be recognised as positive than the group ‘b2’."


def test_a_gap_the_other_way_round_says_so(tmp_path: Path) -> None:
    write_run(tmp_path / "a", {"Female": (0.5, 0.1), "Male": (0.7, 0.1)})
    write_run(tmp_path / "b", {"Female": (0.8, 0.1), "Male": (0.7, 0.1)}, method="glocalfair")
    ((first, _),) = judge(arms(tmp_path)).headlines
    expected = (
        "Men are 10 points less likely to be recognised as high earners than women; with fedavg: 20 the other way"
    )
    assert first == f"{expected} round."


@pytest.mark.parametrize(("rate", "words"), [(0.7, "about as many"), (0.5, "5 points fewer"), (0.9, "5 points more")])
def test_what_accuracy_costs(tmp_path: Path, rate: float, words: str) -> None:
    write_run(tmp_path / "a", {"Female": (0.7, 0.1), "Male": (0.7, 0.1)})
    write_run(tmp_path / "b", {"Female": (rate, 0.1), "Male": (0.7, 0.1)}, method="glocalfair")
    assert words in judge(arms(tmp_path)).details[0]


def test_a_constant_classifier_is_no_success(tmp_path: Path) -> None:
    write_run(tmp_path / "a", {"Female": (0.6, 0.1), "Male": (0.7, 0.1)})
    write_run(tmp_path / "b", {"Female": (0.0, 0.0), "Male": (0.0, 0.0)}, method="glocalfair")
    warnings = judge(arms(tmp_path)).warnings
    assert any(text.startswith("glocalfair has collapsed") for text in warnings)
    assert not any("chance" in text for text in warnings)


@pytest.mark.parametrize(("gap", "chance"), [(0.01, True), (0.2, False)])
def test_a_gap_within_the_noise_is_said_to_be(tmp_path: Path, gap: float, chance: bool) -> None:
    made = write_run(tmp_path / "r", {"Female": (0.6, 0.1), "Male": (0.6 + gap, 0.1)})
    assert any("cannot be told from chance" in text for text in judge(arms(made)).warnings) is chance


def test_undefined_local_fairness_is_counted(tmp_path: Path) -> None:
    made = write_run(tmp_path / "r", {"Female": FAIR, "Male": FAIR}, one_group=("south",))
    assert any("1 of 2 clients for sex" in text for text in judge(arms(made)).details)


def test_one_seed_and_other_settings_are_warned_of(tmp_path: Path) -> None:
    write_run(tmp_path / "a", {"Female": FAIR, "Male": FAIR}, rounds=3)
    write_run(tmp_path / "b", {"Female": FAIR, "Male": FAIR}, rounds=5, method="fedfb")
    told = " ".join(judge(arms(tmp_path)).warnings)
    assert "ran once" in told
    assert "train.rounds" in told


def test_the_same_run_twice_counts_once(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_run(tmp_path / name, {"Female": FAIR, "Male": FAIR})
    (arm,) = arms(tmp_path)
    assert len(arm.runs) == 1


def test_folds_are_called_folds(tmp_path: Path) -> None:
    for fold in (0, 1):
        run = write_run(tmp_path / f"{fold}", {"Female": FAIR, "Male": FAIR})
        (run / "config.toml").write_text((run / "config.toml").read_text() + f"\n[split]\nfolds = 2\nfold = {fold}\n")
    (arm,) = arms(tmp_path)
    assert [run.which for run in arm.runs] == ["fold 0", "fold 1"]
    assert arm.repeats == "fold"


def test_seeds_are_one_arm_and_settings_are_not(tmp_path: Path) -> None:
    groups = {"Female": FAIR, "Male": FAIR}
    for seed in (0, 1):
        write_run(tmp_path / f"a{seed}", groups, seed=seed)
        for gamma in (0.1, 0.6):
            path = tmp_path / f"g{seed}{gamma}"
            write_run(path, groups, seed=seed, method="glocalfair", settings={"gamma": gamma})
    found = arms(tmp_path)
    assert [arm.label for arm in found] == ["fedavg", "glocalfair (gamma 0.1)", "glocalfair (gamma 0.6)"]
    assert [len(arm.runs) for arm in found] == [2, 2, 2]
    assert len({arm.style for arm in found}) == 3
