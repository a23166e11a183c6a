"""The real thing: a SuperLink and four SuperNodes as processes on loopback, with TLS and SuperNode authentication."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs the flower extra")

from glocalfair.flower import certs
from glocalfair.flower.deployment import coordinate
from glocalfair.flower.site import Site
from glocalfair.flower.store import Store
from glocalfair.flower.table import table_rows
from glocalfair.flower.transport import MemoryTransport
from tests.flower.deploy import Deployment, deployed, until
from tests.flower.groups import SITES, simulated, weights_of, write_app, write_tables

# A round takes some ten seconds: every message starts a process that imports torch. More so on a busy machine.
pytestmark = pytest.mark.timeout(1800)
PATIENCE = 900.0

FAULTY = """
from dataclasses import replace

import numpy as np

from glocalfair.flower.site import Site

honest = Site.answer


def answer(self, kind, request):
    reply = honest(self, kind, request)
    if kind != "train" or request.values["round"] != 1:
        return reply
    weights = reply.arrays["weights"]
    if self.name == "female-white":
        return replace(reply, arrays={**reply.arrays, "weights": weights * np.nan})
    if self.name == "male-non-white":
        return replace(reply, arrays={**reply.arrays, "weights": weights[1:]})
    if self.name == "male-white":
        return replace(reply, values={**reply.values, "examples": 10**6})
    return reply
"""


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    folder = tmp_path_factory.mktemp("deployment")
    write_tables(folder)
    with deployed(folder, [*SITES, "stranger", "gullible", "open"]) as deployment:
        deployment.superlink()
        for site in SITES:
            deployment.register(site)
            deployment.supernode(site, node_config(folder, site))
        yield deployment


def node_config(folder: Path, site: str) -> str:
    return f'site="{site}" data="{folder / "data" / site}.csv" state="{folder / "state" / site}"'


def records(app: Path) -> list[dict[str, Any]]:
    log = app / "run" / "rounds.jsonl"
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


def test_equals_the_simulation_and_lets_nobody_else_in(there: Deployment) -> None:
    app = write_app(there.folder, "happy", "glocalfair", rounds=2, epochs=1)
    # Somebody without a registered key, somebody who trusts another CA, and somebody who speaks plain text.
    other = there.folder / "other"
    certs.write(other)
    there.supernode("stranger", 'site="stranger"')
    node = ("flower-supernode", "--superlink", f"127.0.0.1:{there.port}", "--port")
    there.start(
        "gullible", *node, str(there.ports["gullible"]), "--root-certificates", str(other / "ca.crt"), *there.tls
    )
    there.start("open", *node, str(there.ports["open"]), "--insecure")

    said = there.run(app, PATIENCE)
    assert "Round 2/2: 4 of 4 sites" in said, said
    expected = simulated(there.folder, app)
    found = weights_of(app / "run" / "model.glocalfair")
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)
    for site in SITES:
        np.testing.assert_array_equal(weights_of(there.folder / "state" / site / "model.glocalfair"), found)
    assert [record["participants"] for record in records(app)] == [SITES, SITES]

    for refused in ("stranger", "gullible", "open"):
        assert "SuperNode ID" not in there.log(refused), there.log(refused)
        there.kill(refused)
    assert all("SuperNode ID" in there.log(site) for site in SITES)
    assert "Failed to activate SuperNode" in there.log("stranger")
    assert "No SuperNode found with the given public key" in there.log("superlink")
    assert "CERTIFICATE_VERIFY_FAILED" in there.log("gullible")
    assert "Connection attempt failed" in there.log("open")


def test_faults_in_one_run(there: Deployment) -> None:
    """Round 1: NaN, a wrong shape, a wrong count. Round 2: the SuperLink is killed. Round 3: a SuperNode is killed."""
    limits = f"enrol_timeout = {PATIENCE}\nround_timeout = {PATIENCE}\n"
    app = write_app(there.folder, "faulty", "fairfed", rounds=3, epochs=1, quorum=0.25)
    client = app / "faulty" / "client_app.py"
    client.write_text(FAULTY + "\nSite.answer = answer\n" + client.read_text())
    file = app / "faulty" / "federation.toml"
    file.write_text(file.read_text().replace("enrol_timeout = 300.0", limits.splitlines()[0]))

    there.submit(app)
    until(lambda: len(records(app)) == 1, "round 1", PATIENCE)
    there.kill("superlink")
    assert len(records(app)) == 1
    there.superlink()
    there.submit(app)
    until(lambda: len(records(app)) == 2, "round 2", PATIENCE)
    there.kill("male-white")
    until((app / "run" / "result.json").exists, "the result", PATIENCE)

    first, second, third = records(app)
    assert set(first["rejected"]) == {"female-white", "male-non-white", "male-white"}
    assert "not finite" in first["rejected"]["female-white"]
    assert "shape" in first["rejected"]["male-non-white"]
    assert "enrolled with" in first["rejected"]["male-white"]
    assert not second["rejected"] and not second["failed"]
    assert third["failed"] == ["male-white"] and not third["rejected"]
    found = weights_of(app / "run" / "model.glocalfair")
    np.testing.assert_allclose(found, uninterrupted(there.folder, file), rtol=0, atol=1e-6)


def uninterrupted(folder: Path, file: Path) -> Any:
    """Return the final weights of the same run in memory: the same faults, but nobody kills the SuperLink."""
    scope: dict[str, Any] = {}
    exec(FAULTY, scope)

    def site(name: str) -> Any:
        data = folder / "data" / f"{name}.csv"
        one = Site(name, Store(folder / "memory" / name), lambda terms: table_rows(name, data, None, terms))

        def answer(kind: Any, request: Any) -> Any:
            if name == "male-white" and request.values.get("round") == 3:
                raise ConnectionError("killed")
            return scope["answer"](one, kind, request)

        return answer

    transport = MemoryTransport({number: site(name) for number, name in enumerate(SITES)})
    coordinate(transport, file, folder / "memory" / "run", tell=lambda line: None)
    return weights_of(folder / "memory" / "run" / "model.glocalfair")
