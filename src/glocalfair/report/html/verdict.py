"""The verdict: what a reader who reads nothing else must know, in plain words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from glocalfair.report.html.arms import BASELINE, Arm, baseline_of, settings_that_differ, subject_of
from glocalfair.report.html.gaps import Gap, same_pair, widest, within_chance
from glocalfair.report.html.words import Words, noun, people, points, sentence, verb, words_for
from glocalfair.report.text import at, figure

COST = 0.005
"""Differences in accuracy below half a point are called none."""


@dataclass(frozen=True)
class Verdict:
    """Sentences, most important first."""

    subject: Arm
    baseline: Arm | None
    headlines: tuple[tuple[str, str], ...]
    """For each attribute the wider of its two gaps, and the other."""
    details: tuple[str, ...]
    warnings: tuple[str, ...]


def judge(arms: Sequence[Arm]) -> Verdict:
    """Say how fair GLocalFair (or the first method) is, what it costs, and what to be careful about."""
    subject = subject_of(arms)
    baseline = baseline_of(subject, arms)
    words = words_for(subject.first.config.get("data", {}))
    names = [a.name for a in subject.first.overall.attributes]
    gaps = (gap_sentences(subject, baseline, name, words) for name in names)
    headlines = tuple(text for text in gaps if text)
    details = (accuracy_sentence(subject, baseline), *local_sentences(subject, baseline, names))
    return Verdict(subject, baseline, headlines, details, tuple(warnings(arms, subject, baseline, names)))


def gap_sentences(subject: Arm, baseline: Arm | None, attribute: str, words: Words) -> tuple[str, str] | None:
    """Write both gaps of an attribute, the wider one first."""
    found = [gap for rate in ("TPR", "FPR") if (gap := widest(subject, attribute, rate))]
    if len(found) < 2:
        return None
    found.sort(key=lambda gap: -gap.size)
    first, second = (_clause(gap, baseline, attribute, words) for gap in found)
    return sentence(first), sentence(second)


def _clause(gap: Gap, baseline: Arm | None, attribute: str, words: Words) -> str:
    before = same_pair(baseline, attribute, gap) if baseline else None
    size = points(gap.size, () if before is None else [before])
    told = words.recognised() if gap.rate == "TPR" else words.mistaken()
    text = f"{people(gap.low)} {verb(gap.low)} {noun(size)} less likely to be {told} than {people(gap.high)}"
    if before is None or baseline is None:
        return text
    other = points(before, [gap.size])
    return f"{text}; with {baseline.label}: {other}{' the other way round' if before < 0 else ''}"


def accuracy_sentence(subject: Arm, baseline: Arm | None) -> str:
    """Write the accuracy and what it costs against the baseline."""
    mine = subject.mean("global", "accuracy")
    if mine is None:
        return "There are no test rows, so the accuracy is unknown."
    opening = f"With {subject.label} {100 * mine:.1f} % of the answers in the test set are right"
    theirs = baseline.mean("global", "accuracy") if baseline else None
    if baseline is None or theirs is None:
        return sentence(opening)
    cost = theirs - mine
    if abs(cost) < COST:
        return sentence(f"{opening}, with {baseline.label} {100 * theirs:.1f} %, about as many")
    word = "fewer" if cost > 0 else "more"
    return sentence(f"{opening}, {noun(points(cost))} {word} than with {baseline.label} ({100 * theirs:.1f} %)")


def local_sentences(subject: Arm, baseline: Arm | None, names: Sequence[str]) -> Iterator[str]:
    """Write the mean gap inside the clients, and where there is none to measure."""
    clients = int(subject.first.result["local"]["accuracy"]["clients"])
    undefined = []
    for name in names:
        mine = subject.mean("local", "eod", name, "mean")
        number = int(at(subject.first.result, ("local", "eod", name, "defined")) or 0)
        if number < clients:
            undefined.append(f"{clients - number} of {clients} clients for {name}")
        if mine is None:
            continue
        theirs = baseline.mean("local", "eod", name, "mean") if baseline else None
        floor = subject.mean("local", "noise_floor", "eod", name)
        before = f" ({baseline.label}: {figure(theirs)})" if baseline and theirs is not None else ""
        chance = f"; chance alone would show {figure(floor)}" if floor is not None else ""
        yield f"Inside the organisations the mean {name} gap (EOD) is {figure(mine)}{before}{chance}."
    if undefined:
        yield (
            "Local fairness is undefined where a client holds no two groups with both labels to compare: "
            f"{', '.join(undefined)}."
        )


def warnings(arms: Sequence[Arm], subject: Arm, baseline: Arm | None, names: Sequence[str]) -> Iterator[str]:
    """Write what a reader could get wrong."""
    for arm in arms:
        if arm.constant:
            rate = figure(arm.mean("global", "positive_rate"))
            yield (
                f"{arm.label} has collapsed: it gives everybody the same answer (positive rate {rate}), so its gaps "
                "are 0 without being fair."
            )
    for name in names if not subject.constant else ():
        number, runs = within_chance(subject, name), len(subject.runs)
        if 2 * number > runs:
            often = f" in {number} of {runs} {subject.repeats}s" if runs > 1 else ""
            floor = figure(subject.mean("global", "noise_floor", "eod", name))
            yield (
                f"The {name} gap of {subject.label} cannot be told from chance{often}: a perfectly fair model would "
                f"show an EOD of {floor} on average on a test set of this size."
            )
    if len(arms) == 1:
        other = "a run of glocalfair" if subject.method == BASELINE else "a run of fedavg"
        yield f"There is nothing to compare with: add {other} to see what fairness costs."
    if len(arms) > 1 and all(len(arm.runs) == 1 for arm in arms):
        yield "Each method ran once: small differences between methods may be luck."
    differing = settings_that_differ(arms)
    if differing:
        keys = ", ".join(differing[:6]) + (" …" if len(differing) > 6 else "")
        yield f"The runs differ in more than the method ({keys}): compare them with care."
