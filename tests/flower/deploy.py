"""A real deployment on loopback: SuperLink and SuperNodes as processes, with TLS and SuperNode authentication."""

from __future__ import annotations

import contextlib
import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from glocalfair.flower import certs

BIN = Path(sys.executable).parent
WAIT = 90.0


def free_ports(count: int) -> list[int]:
    """Return ports in a row that nobody uses, below those that outgoing connections take by chance."""
    while True:
        first = random.randrange(10_000, 32_000)
        with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
            for port in range(first, first + count):
                stack.enter_context(socket.socket()).bind(("127.0.0.1", port))
            return list(range(first, first + count))


def until(condition: Callable[[], bool], what: str, seconds: float = WAIT) -> None:
    """Wait for something, or fail with its name."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"waited {seconds:g} s for {what}")
        time.sleep(0.1)


class Deployment:
    """One SuperLink and its SuperNodes; whatever it started ends with it."""

    def __init__(self, folder: Path, sites: list[str]) -> None:
        self.folder, self.sites = folder, sites
        self.certs = folder / "certs"
        certs.write(self.certs, sites=sites)
        self.port, *ports = free_ports(len(sites) + 1)
        self.ports = dict(zip(sites, ports, strict=True))
        self.home = folder / "flwr"
        self.home.mkdir()
        (self.home / "config.toml").write_text(
            f'[superlink.lo]\naddress = "127.0.0.1:{self.port}"\nroot-certificates = "{self.certs / "ca.crt"}"\n'
        )
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
            "FLWR_HOME": str(self.home),
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            # How often a new message is looked for; Flower's default is once a second.
            "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.1",
            "OMP_NUM_THREADS": "1",
        }

    @property
    def tls(self) -> list[str]:
        files = ("ssl-ca-certfile", "ca.crt"), ("ssl-certfile", "server.pem"), ("ssl-keyfile", "server.key")
        return [word for option, name in files for word in (f"--{option}", str(self.certs / name))]

    def log(self, name: str) -> str:
        path = self.folder / f"{name}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def start(self, name: str, *command: str) -> None:
        with (self.folder / f"{name}.log").open("ab") as out:
            # A session of its own: the process and all that it starts can be ended together.
            self.processes[name] = subprocess.Popen(
                [str(BIN / command[0]), *command[1:]],
                stdout=out,
                stderr=subprocess.STDOUT,
                env=self.environment,
                start_new_session=True,
                cwd=self.folder,
            )

    def kill(self, name: str) -> None:
        """End a process and everything that it started, at once."""
        process = self.processes.pop(name)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def superlink(self) -> None:
        self.start(
            "superlink",
            "flower-superlink",
            *self.tls,
            "--enable-supernode-auth",
            "--disable-runtime-dependency-installation",
            *("--host", "127.0.0.1", "--port", str(self.port), "--database", str(self.folder / "state.db")),
        )
        until(self.listening, "the SuperLink")

    def listening(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
            return True
        return False

    def flwr(self, *words: str, timeout: float = WAIT) -> str:
        done = subprocess.run(
            [str(BIN / "flwr"), *words],
            capture_output=True,
            text=True,
            env=self.environment,
            timeout=timeout,
            cwd=self.folder,
        )
        return done.stdout + done.stderr

    def register(self, site: str) -> None:
        said = self.flwr("supernode", "register", str(self.certs / "keys" / f"{site}.pub"), "lo")
        assert "egistered" in said, said

    def supernode(self, site: str, node_config: str, key: Path | None = None) -> None:
        self.start(
            site,
            "flower-supernode",
            *("--superlink", f"127.0.0.1:{self.port}", "--root-certificates", str(self.certs / "ca.crt")),
            *("--auth-supernode-private-key", str(key or self.certs / "keys" / site)),
            *("--node-config", node_config, "--port", str(self.ports[site])),
            *self.tls,
        )

    def submit(self, app: Path) -> str:
        """Submit a run and return its id."""
        said = self.flwr("run", str(app), "lo")
        found = re.search(r"run (\d{6,})", said)
        assert found, said
        return found[1]

    def run(self, app: Path, seconds: float) -> str:
        """Submit a run and return its log when it ends."""
        return self.flwr("run", str(app), "lo", "--stream", timeout=seconds)


@contextlib.contextmanager
def deployed(folder: Path, sites: list[str]) -> Iterator[Deployment]:
    """Start nothing yet, and end everything at last."""
    there = Deployment(folder, sites)
    try:
        yield there
    finally:
        for name in list(there.processes):
            there.kill(name)
