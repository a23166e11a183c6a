"""What goes wrong between organisations, in memory: each site is named with its reason, and the model stays whole."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs the flower extra")

from glocalfair.errors import GlocalfairError
from glocalfair.flower.enrolment import Roster
from glocalfair.flower.settings import Terms
from glocalfair.flower.site import Kind
from glocalfair.flower.transport import MemoryTransport
from glocalfair.flower.wire import Content
from tests.contract.test_methods import make
from tests.federations import drawn, play, start
from tests.flower.memory import Deployment, deployment

Answer = Callable[[Kind, Content], Content]


def small(tmp_path: Path, name: str = "glocalfair", **flower: Any) -> Deployment:
    return deployment(
        make(name, {"warmup": 0.0} if name == "glocalfair" else {}, drawn(3)), _named(name), tmp_path, **flower
    )


def _named(name: str) -> dict[str, Any]:
    return {"name": name, "warmup": 0.0} if name == "glocalfair" else {"name": name}


def meddle(there: Deployment, name: str, change: Callable[[Content], Content], when: tuple[int, ...] = (2,)) -> None:
    """Let a site change its own replies in some rounds."""
    honest = there.sites[name].answer

    def answer(kind: Kind, request: Content) -> Content:
        reply = honest(kind, request)
        return change(reply) if kind == "train" and request.values["round"] in when else reply

    route(there, name, answer)


def route(there: Deployment, name: str, answer: Answer) -> None:
    number = sorted(there.sites).index(name) + 1
    there.transport._sites[number] = answer


def weights(change: Callable[[Any], Any]) -> Callable[[Content], Content]:
    return lambda reply: replace(reply, arrays={**reply.arrays, "weights": change(reply.arrays["weights"])})


def values(**changed: Any) -> Callable[[Content], Content]:
    return lambda reply: replace(reply, values={**reply.values, **changed})


BROKEN: dict[str, tuple[Callable[[Content], Content], str]] = {
    "NaN": (weights(lambda w: w * np.nan), "not finite"),
    "shape": (weights(lambda w: w[:-1]), "shape"),
    "two axes": (weights(lambda w: w.reshape(1, -1)), "shape"),
    "dtype": (weights(lambda w: w.astype(np.float32)), "float32"),
    "integers": (weights(lambda w: w.astype(np.int64)), "int64"),
    "huge": (weights(lambda w: w + 1e9), "step of length"),
    "count": (values(examples=10**6), "enrolled with"),
    "negative count": (values(examples=-1), "enrolled with"),
    "count as text": (values(examples="5"), "expected int"),
    "other name": (values(site="nobody"), "nobody"),
    "other round": (values(round=7), "expected 2"),
    "other kind": (values(kind="enrolled"), "enrolled"),
    "no kind": (lambda reply: Content({}, reply.arrays), "kind"),
    "no weights": (lambda reply: replace(reply, arrays={}), "weights"),
    "more payload": (values(**{"payload.secret": 1.0}), "secret"),
    "payload shape": (
        lambda reply: replace(reply, arrays={**reply.arrays, "payload.totals": np.zeros((2, 2))}),
        "totals",
    ),
    "refused": (lambda reply: Content({"kind": "refused", "site": "x", "reason": "not today"}), "not today"),
    "lost": (lambda reply: (_ for _ in ()).throw(ConnectionError("its node is gone")), "gone"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_reply_is_named_and_left_out(kind: str, tmp_path: Path) -> None:
    change, reason = BROKEN[kind]
    there = small(tmp_path)
    name = sorted(there.sites)[1]
    meddle(there, name, change)
    state, records = there.play()
    lost = [{**record["why"], **record["rejected"]} for record in records]
    assert [list(each) for each in lost] == [[], [name], [], []]
    assert reason in lost[1][name]
    assert np.isfinite(state.server.weights).all()
    assert name not in records[1]["server"]["coefficients"]
    # The others' round counted, and the site goes on from its state before the lost round, as in the simulator.
    sim = there.sim
    expected = start(sim)
    for number in range(1, 5):
        context = sim.context(number)
        updates, after, _, _ = sim.train_clients(expected, context)
        kept = [u for u in updates if number != 2 or u.client != name]
        server, _ = sim.method.server_round(expected.server, kept, context)
        clients = {**expected.clients, **{u.client: after[u.client] for u in kept}}
        expected = replace(expected, round=number, server=server, clients=clients)
    np.testing.assert_allclose(state.server.weights, expected.server.weights, rtol=0, atol=1e-12)


def test_below_the_quorum_the_model_stays_and_the_run_stops_at_last(tmp_path: Path) -> None:
    there = small(tmp_path, quorum=0.75, give_up=2)
    first, second, *_ = sorted(there.sites)
    for name in (first, second):
        meddle(there, name, BROKEN["NaN"][0], when=(2, 3, 4))
    coordinator, records = there.coordinator(), []
    state = coordinator.start(start(there.sim).server.weights)
    directory = there.directory()
    with pytest.raises(GlocalfairError, match=f"2 rounds in a row.*{first}: .*not finite.*{second}: .*submit"):
        coordinator.run(there.transport, state, directory, records.append)
    saved = directory.load_state()
    assert saved.round == 3
    assert "quorum" in records[1]["server"]["refused"]
    one = small(tmp_path / "one").play()[1][0]["server"]["coefficients"]
    assert records[0]["server"]["coefficients"] == one


class Stop(Exception):  # noqa: N818
    pass


@pytest.mark.parametrize("when", ["before", "half", "after"])
@pytest.mark.parametrize("method", ["glocalfair", "ditto", "fedfb"])
def test_a_run_that_was_stopped_ends_with_the_same_model(method: str, when: str, tmp_path: Path) -> None:
    """Stopped in round 3: before anybody is asked, when half have replied, and when all have but nothing is saved."""
    straight, _ = small(tmp_path / "straight", method).play()
    there = small(tmp_path / "stopped", method)
    directory = there.directory()
    coordinator = there.coordinator()
    coordinator.roster.save(directory.path)
    number = {"before": 0, "half": 2, "after": len(there.sites)}[when]
    asked: list[str] = []

    class Dies(MemoryTransport):
        def ask(self, kind: Kind, requests: Any, timeout: float) -> Any:
            if kind == "train" and next(iter(requests.values())).values["round"] == 3:
                some = dict(list(requests.items())[:number])
                asked.extend(map(str, super().ask(kind, some, timeout)))
                raise Stop
            return super().ask(kind, requests, timeout)

    dying = Dies(there.transport._sites)
    with pytest.raises(Stop):
        coordinator.run(dying, coordinator.start(start(there.sim).server.weights), directory)
    assert len(asked) == number

    known = Roster.load(directory.path)
    assert known is not None and known.terms == coordinator.roster.terms
    again, state = there.coordinator(known), directory.resume()
    assert state is not None and state.round == 2
    trained: list[str] = []
    for name, site in there.sites.items():
        log = site.store.log_file.read_text()
        trained += [name] * log.count('"event": "trained"')
    end = again.run(there.transport, state, directory)
    np.testing.assert_array_equal(end.server.weights, straight.server.weights)
    after = sum(site.store.log_file.read_text().count('"event": "trained"') for site in there.sites.values())
    # Whoever had replied in round 3 did not train again: no dual stepped twice.
    assert after - len(trained) == 2 * len(there.sites) - number


def test_a_site_that_lost_its_folder_says_so(tmp_path: Path) -> None:
    import shutil

    there = small(tmp_path)
    name = sorted(there.sites)[0]

    def answer(kind: Kind, request: Content) -> Content:
        if kind == "train" and request.values["round"] == 3:
            shutil.rmtree(there.sites[name].store.folder)
        return there.sites[name].answer(kind, request)

    route(there, name, answer)
    _, records = there.play()
    assert "no state after round 2" in records[2]["rejected"][name]


def test_a_site_refuses_what_it_does_not_share(tmp_path: Path) -> None:
    there = small(tmp_path, "fairfed")
    name = sorted(there.sites)[0]
    strict = replace(there.sites[name], share=frozenset({"weights", "examples", "totals"}))
    route(there, name, strict.answer)
    _, records = there.play()
    assert all(name not in record["participants"] for record in records)
    told = next(line for line in there.lines if "does not take part" in line)
    assert f"Site '{name}' does not send 'group_" in told and "method 'fairfed' asks for" in told
    assert "does not send" in strict.store.log_file.read_text()


def test_too_few_sites_is_an_error_with_all_reasons(tmp_path: Path) -> None:
    there = small(tmp_path, "fairfed", min_sites=4)
    name = sorted(there.sites)[0]
    route(there, name, replace(there.sites[name], share=frozenset({"weights", "examples"})).answer)
    with pytest.raises(GlocalfairError, match=rf"3 of at least 4 sites.*missing are {name}.*does not send"):
        there.play()


def test_nobody_connects_is_an_error_after_the_time(tmp_path: Path) -> None:
    there = small(tmp_path, enrol_timeout=0.05)
    there.transport._sites.clear()
    with pytest.raises(GlocalfairError, match=r"0 of at least 1 sites .* 0\.05 s, missing are client"):
        there.play()


@pytest.mark.parametrize(
    ("changed", "reason"),
    [({"site": "stranger"}, "not expected"), ({"examples": 0}, "0 examples"), ({"examples": 10**12}, "examples")],
)
def test_enrolments_are_checked(changed: dict[str, Any], reason: str, tmp_path: Path) -> None:
    there = small(tmp_path)
    name = sorted(there.sites)[0]
    honest = there.sites[name].answer

    def answer(kind: Kind, request: Content) -> Content:
        reply = honest(kind, request)
        return values(**changed)(reply) if kind == "enrol" else reply

    route(there, name, answer)
    there.flower = replace(there.flower, enrol_timeout=1.0)
    _, records = there.play()
    assert all(name not in record["participants"] for record in records)
    assert any(reason in line for line in there.lines)


def test_two_sites_of_one_name(tmp_path: Path) -> None:
    there = small(tmp_path)
    first, second, *_ = sorted(there.sites)
    route(there, second, there.sites[first].answer)
    there.flower = replace(there.flower, enrol_timeout=1.0)
    there.play()
    assert any("there is a site of this name already" in line for line in there.lines)


def test_other_data_on_resumption_are_refused(tmp_path: Path) -> None:
    there = small(tmp_path)
    roster = there.coordinator().roster
    name = sorted(there.sites)[0]
    other = replace(roster.infos[name], examples=roster.infos[name].examples + 1)
    with pytest.raises(GlocalfairError, match=f"Site '{name}' has .* it began the run with"):
        there.coordinator(replace(roster, infos={**roster.infos, name: other}))


def test_a_site_that_comes_back_under_another_node_is_found(tmp_path: Path) -> None:
    there = small(tmp_path)
    coordinator = there.coordinator()
    there.transport._sites[99] = there.transport._sites.pop(1)
    records: list[Any] = []
    state = coordinator.run(
        there.transport, coordinator.start(start(there.sim).server.weights), on_round=records.append
    )
    assert not any(record["failed"] for record in records)
    np.testing.assert_allclose(state.server.weights, play(there.sim, 4)[0].server.weights, rtol=0, atol=1e-12)


def test_an_error_at_a_site_does_not_tell_its_rows(tmp_path: Path) -> None:
    there = small(tmp_path)
    name = sorted(there.sites)[0]

    def rows(terms: Terms) -> Any:
        raise RuntimeError("row 17 is Mrs. Smith")

    site = replace(there.sites[name], rows=rows)
    reply = site.answer("enrol", Content({"terms": there.terms.to_json()}))
    assert "RuntimeError" in str(reply.values["reason"]) and "Smith" not in str(reply.values)
    assert "Smith" in site.store.log_file.read_text()


def test_diagnostics_stay_at_the_site(tmp_path: Path) -> None:
    there = small(tmp_path)
    _, records = there.play()
    assert not any("clients" in record or "loss" in record for record in records)
    assert all("multiplier" in site.store.log_file.read_text() for site in there.sites.values())


def test_constraints_of_a_site_of_its_own(tmp_path: Path) -> None:
    there = small(tmp_path)
    name = sorted(there.sites)[0]
    own = {"constraints": ["fnr"], "tau_fnr": 0.2}
    route(there, name, replace(there.sites[name], overrides=own).answer)
    state, _ = there.play()
    expected, _ = play(make("glocalfair", {"warmup": 0.0, "overrides": {name: own}}, drawn(3)), 4)
    np.testing.assert_allclose(state.server.weights, expected.server.weights, rtol=0, atol=1e-12)
    refused = replace(there.sites[name], overrides=own).answer(
        "enrol", Content({"terms": replace(there.terms, method={"name": "fedavg"}).to_json()})
    )
    assert "constraints of its own" in str(refused.values["reason"])
