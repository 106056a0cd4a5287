"""Flower on loopback: a SuperLink with TLS and node authentication, and SuperNodes with keys that it
knows."""

from __future__ import annotations

import datetime
import ipaddress
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

BIN = Path(sys.executable).parent
ROOT = Path(__file__).resolve().parents[3]
APP = Path(__file__).resolve().parent / "app"


def certificates(folder: Path) -> None:
    """An authority of one day, and a certificate of localhost by it."""
    own, other = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    start = datetime.datetime.now(datetime.UTC) - datetime.timedelta(hours=1)
    authority = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "deniable test authority")])
    server = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]

    def signed(
        subject: x509.Name, key: ec.EllipticCurvePrivateKey, extension: x509.ExtensionType
    ) -> x509.Certificate:
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(authority)
            .public_key(key.public_key())
        )
        builder = builder.serial_number(x509.random_serial_number()).not_valid_before(start)
        builder = builder.not_valid_after(start + datetime.timedelta(days=1))
        return builder.add_extension(extension, critical=False).sign(own, hashes.SHA256())

    pem = serialization.Encoding.PEM
    ca = signed(authority, own, x509.BasicConstraints(ca=True, path_length=None))
    (folder / "ca.pem").write_bytes(ca.public_bytes(pem))
    (folder / "server.pem").write_bytes(
        signed(server, other, x509.SubjectAlternativeName(names)).public_bytes(pem)
    )
    (folder / "server.key").write_bytes(_private(other, serialization.PrivateFormat.PKCS8))


def node_key(folder: Path, name: str) -> None:
    """In OpenSSH's form: SuperNodes read no other."""
    key = ec.generate_private_key(ec.SECP384R1())
    (folder / name).write_bytes(_private(key, serialization.PrivateFormat.OpenSSH))
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    (folder / f"{name}.pub").write_bytes(public)


def _private(key: ec.EllipticCurvePrivateKey, form: serialization.PrivateFormat) -> bytes:
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class Loopback:
    """The processes of one play, ended by their ids."""

    folder: Path
    port: int = field(default_factory=free_port)
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    devices: dict[int, subprocess.Popen[bytes]] = field(default_factory=dict)

    def environment(self, **more: str) -> dict[str, str]:
        paths = [str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")]
        own = {
            "FLWR_HOME": str(self.folder / "home"),
            "FLWR_TELEMETRY_ENABLED": "0",
            "SCENE": str(self.folder),
        }
        own["PATH"] = f"{BIN}{os.pathsep}{os.environ['PATH']}"
        return {**os.environ, **own, "PYTHONPATH": os.pathsep.join(filter(None, paths)), **more}

    def start(self, name: str, *command: str, **more: str) -> subprocess.Popen[bytes]:
        log = (self.folder / f"{name}.log").open("ab")
        process = subprocess.Popen(
            command,
            stdout=log,
            stderr=log,
            env=self.environment(**more),
            start_new_session=True,
            cwd=self.folder,
        )
        self.processes.append(process)
        return process

    def superlink(self, **more: str) -> None:
        certificates(self.folder)
        home = self.folder / "home"
        home.mkdir()
        (home / "config.toml").write_text(
            f'[superlink]\ndefault = "loopback"\n\n[superlink.loopback]\naddress = "localhost:{self.port}"\n'
            f'root-certificates = "{self.folder / "ca.pem"}"\n',
            encoding="utf-8",
        )
        self.start(
            "superlink", str(BIN / "flower-superlink"), "--host", "127.0.0.1", "--port", str(self.port),
            "--ssl-ca-certfile", "ca.pem", "--ssl-certfile", "server.pem", "--ssl-keyfile", "server.key",
            "--enable-supernode-auth", "--disable-runtime-dependency-installation", **more,
        )  # fmt: skip
        self.wait_for_port()

    def wait_for_port(self) -> None:
        for _ in range(240):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.5)
        raise AssertionError(f"The SuperLink does not listen: {self.log('superlink')}")

    def flwr(self, *words: str) -> str:
        run = subprocess.run(
            [str(BIN / "flwr"), *words], env=self.environment(), capture_output=True, text=True, cwd=self.folder,
            check=False, timeout=300,
        )  # fmt: skip
        assert run.returncode == 0, run.stdout + run.stderr
        return run.stdout

    def supernode(self, number: int) -> None:
        name = f"node-{number}"
        node_key(self.folder, name)
        self.flwr("supernode", "register", f"{name}.pub", "loopback", "--name", name)
        self._node(name, number)

    def stranger(self, number: int) -> subprocess.Popen[bytes]:
        """A node that nobody registered, with the socket of a device."""
        node_key(self.folder, "stranger")
        return self._node("stranger", number)

    def _node(self, name: str, number: int) -> subprocess.Popen[bytes]:
        return self.start(
            name, str(BIN / "flower-supernode"), "--superlink", f"127.0.0.1:{self.port}", "--root-certificates", "ca.pem",
            "--auth-supernode-private-key", name, "--host", "127.0.0.1", "--port", str(free_port()),
            "--node-config", f'device="{self.folder / f"device-{number}.sock"}"',
        )  # fmt: skip

    def device(self, number: int, manner: str = "honest") -> None:
        words = (str(self.folder), str(number), manner)
        command = (sys.executable, "-m", "tests.federated.flower.scene", *words)
        self.devices[number] = self.start(f"device-{number}", *command)

    def gone(self, number: int) -> None:
        """Kill a device. Its node stays, and has nobody to hand messages to."""
        self.devices[number].kill()
        self.devices[number].wait()

    def play(self) -> None:
        self.flwr("run", str(APP), "loopback")

    def rounds(self) -> list[dict[str, int]]:
        path = self.folder / "rounds.jsonl"
        return (
            [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
            if path.exists()
            else []
        )

    def wait(self, name: str, seconds: float) -> None:
        """Until a file is there."""
        end = time.monotonic() + seconds
        while not (self.folder / name).exists():
            assert time.monotonic() < end, f"{name} did not come: {self.log('superlink')[-4000:]}"
            time.sleep(0.5)

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(encoding="utf-8", errors="replace")

    def end(self) -> None:
        for process in reversed(self.processes):
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
        for process in self.processes:
            try:
                process.wait(timeout=600)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)


@contextmanager
def loopback(folder: Path) -> Iterator[Loopback]:
    stage = Loopback(folder)
    try:
        yield stage
    finally:
        stage.end()
