"""What the operator of a service sets, in `server.toml`. Secrets are never in it: it names files that hold
them.

>>> settings = parse('folder = "state"\\nroots = ["data"]')
>>> settings.http, settings.wire
(Address(host='127.0.0.1', port=8000), Address(host='127.0.0.1', port=5433))
"""

from __future__ import annotations

import ipaddress
import tomllib
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from deniable.errors import InvalidParameter
from deniable.server.traffic.addresses import TrustedProxies

KINDS: dict[str, type] = {"proxy": bool, "second_person": bool, "threads": int, "workers": int}
LOOPBACK = ("127.0.0.0/8", "::1")


def loopback(host: str) -> bool:
    """Whether a host is this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Address(NamedTuple):
    """Where a door listens."""

    host: str
    port: int

    @property
    def loopback(self) -> bool:
        return loopback(self.host)

    def __str__(self) -> str:
        if ":" in self.host:
            return f"[{self.host}]:{self.port}"
        return f"{self.host}:{self.port}"


@dataclass(frozen=True)
class Engines:
    """What each data set's engine may use."""

    memory: str | None = "2GB"
    seconds: float = 60.0
    threads: int | None = None


@dataclass(frozen=True)
class Caps:
    """The most ε that one analyst may spend on a data set, in one connection and in one day (UTC); None: only
    her limit counts."""

    session: float | None = None
    day: float | None = None


@dataclass(frozen=True)
class Rates:
    """How often, in the words of the package `limits`: logins that fail, by a name at one address and by an
    address; requests and previews by person; what was refused, by person, or by address before a login (a
    refused text counts once for each thousand characters)."""

    login_person: str = "10/minute; 60/hour"
    login_address: str = "60/minute"
    requests: str = "600/minute"
    previews: str = "1200/minute"
    refusals: str = "300/minute"


@dataclass(frozen=True)
class Oidc:
    """An OpenID provider that people may log in by. `secret` names a file in the service's folder; `claim`
    says what the provider proves of a person: `sub`, or `email` where it has verified that."""

    issuer: str
    client: str
    secret: str | None = None
    claim: str = "sub"


@dataclass(frozen=True)
class Settings:
    """A service. `folder` holds its state and keys, `roots` the folders that data may be registered from.

    `floor` rounds the time of every answer up to whole steps. `proxy` says that a proxy in front speaks TLS
    for the HTTP door, which then may be reached from elsewhere without its own; the wire needs `certificate`
    and `key` there in any case. `trusted_proxies` are the addresses and networks of proxies whose
    `X-Forwarded-For` is believed; with `proxy` and none of them named, that is this machine.

    `workers` are the processes that serve it; several need a ledger in PostgreSQL, where the service's
    own state lies too unless `state` says otherwise.
    """

    folder: Path = Path("deniable-server")
    roots: tuple[Path, ...] = ()
    http: Address = Address("127.0.0.1", 8000)
    wire: Address | None = Address("127.0.0.1", 5433)
    ledger: str | None = None
    state: str | None = None
    certificate: Path | None = None
    key: Path | None = None
    proxy: bool = False
    trusted_proxies: tuple[str, ...] = ()
    origin: str | None = None
    floor: float = 0.1
    threads: int = 64
    workers: int = 1
    session_hours: float = 12.0
    second_person: bool = False
    oidc: Oidc | None = None
    engines: Engines = field(default_factory=Engines)
    caps: Caps = field(default_factory=Caps)
    rates: Rates = field(default_factory=Rates)

    @property
    def ledger_url(self) -> str:
        return self.ledger or f"sqlite:///{self.folder / 'privacy.db'}"

    @property
    def state_url(self) -> str:
        if self.state is None and self.ledger is not None and _in_postgres(self.ledger):
            return self.ledger
        return self.state or f"sqlite:///{self.folder / 'state.db'}"

    @property
    def proxies(self) -> TrustedProxies:
        """The proxies that are believed."""
        if self.proxy and not self.trusted_proxies:
            return TrustedProxies(LOOPBACK)
        return TrustedProxies(self.trusted_proxies)

    @property
    def tls(self) -> bool:
        return self.certificate is not None and self.key is not None


def load(path: Path) -> Settings:
    """The settings in a file; paths in it are relative to its folder."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidParameter(f"The settings {path} cannot be read: {error}. Nothing was started.") from None
    return parse(text, path.parent)


def parse(text: str, base: Path = Path()) -> Settings:
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidParameter(f"The settings are not TOML: {error}. Nothing was started.") from None
    return check_settings(
        Settings(
            **{name: _value(name, value, base) for name, value in _check_names(content, Settings).items()}
        )
    )


def check_settings(settings: Settings) -> Settings:
    """Refuse what would send answers or passwords in the clear, and what cannot be served."""
    _check_encrypted(settings)
    _check_workers(settings)
    TrustedProxies(settings.trusted_proxies)
    if settings.oidc is not None:
        _check_oidc(settings.oidc, settings.origin)
    if (
        not 0 <= settings.floor < 60
        or not 1 <= settings.threads <= 4096
        or not 0 < settings.session_hours <= 24 * 31
    ):
        raise InvalidParameter(
            "Expected floor in [0, 60) seconds, threads in 1 … 4096 and session_hours in (0, 744]."
        )
    return settings


def _check_encrypted(settings: Settings) -> None:
    if (settings.certificate is None) != (settings.key is None):
        raise InvalidParameter("Expected certificate and key together: TLS needs both. Nothing was started.")
    if not settings.http.loopback and not (settings.tls or settings.proxy):
        raise _clear(
            "http", settings.http, "name certificate and key, or set proxy = true behind one that speaks TLS"
        )
    if settings.wire is not None and not settings.wire.loopback and not settings.tls:
        raise _clear("wire", settings.wire, "name certificate and key")


def _check_workers(settings: Settings) -> None:
    if not 1 <= settings.workers <= 64:
        raise InvalidParameter("Expected workers in 1 … 64. Nothing was started.")
    if settings.workers > 1 and not (_in_postgres(settings.ledger_url) and _in_postgres(settings.state_url)):
        raise InvalidParameter(
            f"Expected a ledger in PostgreSQL for {settings.workers} workers. Nothing was started. Name it "
            'as ledger = "postgresql://…", or set workers = 1.'
        )


def _in_postgres(url: str) -> bool:
    return url.startswith(("postgresql:", "postgresql+psycopg:", "postgres:"))


def _check_oidc(oidc: Oidc, origin: str | None) -> None:
    parts = urlsplit(str(oidc.issuer))
    if parts.scheme != "https" and not (parts.scheme == "http" and loopback(parts.hostname or "")):
        raise InvalidParameter("Expected oidc.issuer as an https address. Nothing was started.")
    if oidc.claim not in ("sub", "email"):
        raise InvalidParameter(
            "Expected oidc.claim as sub or email: names that people choose themselves prove nothing. Nothing "
            "was started."
        )
    if origin is None:
        raise InvalidParameter(
            "Expected origin beside oidc, the address that browsers reach this service at, like "
            '"https://stats.example.org". Nothing was started.'
        )


def _clear(name: str, address: Address, way_out: str) -> InvalidParameter:
    return InvalidParameter(
        f"Expected TLS for {name} = {str(address)!r}: off loopback, passwords and answers would be read on "
        f"the way. Nothing was started. Listen on 127.0.0.1, or {way_out}."
    )


def _check_names(table: dict[str, Any], kind: type[Any]) -> dict[str, Any]:
    names = {each.name for each in fields(kind)}
    if unknown := [name for name in table if name not in names]:
        raise InvalidParameter(
            f"The setting {unknown[0]!r} is not known. Nothing was started. Expected among "
            f"{', '.join(sorted(names))}."
        )
    return table


def _value(name: str, value: Any, base: Path) -> Any:
    match name:
        case "folder" | "certificate" | "key":
            return (base / _text(name, value)).resolve()
        case "roots":
            return tuple((base / _text(name, each)).resolve() for each in _list(name, value))
        case "trusted_proxies":
            return tuple(_text(name, each) for each in _list(name, value))
        case "http" | "wire":
            if value is False and name == "wire":
                return None
            return _address(name, _text(name, value))
        case "engines" | "caps" | "rates" | "oidc":
            return _part(name, value)
        case "floor" | "session_hours":
            return float(_check_type(name, value, int | float))
        case _ if name in KINDS:
            return _check_type(name, value, KINDS[name])
        case _:
            return _text(name, value)


def _part(name: str, value: Any) -> Any:
    kind: type[Any] = {"engines": Engines, "caps": Caps, "rates": Rates, "oidc": Oidc}[name]
    values = _check_names(_check_type(name, value, dict), kind)
    for missing in (
        each.name for each in fields(kind) if each.default is MISSING and each.name not in values
    ):
        raise InvalidParameter(f"The setting {name}.{missing} is missing. Nothing was started.")
    return kind(**values)


def _check_type(name: str, value: Any, kind: Any) -> Any:
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise InvalidParameter(
            f"The setting {name} = {value!r} is not of the right type. Nothing was started."
        )
    return value


def _text(name: str, value: Any) -> str:
    return str(_check_type(name, value, str))


def _list(name: str, value: Any) -> list[Any]:
    return list(_check_type(name, value, list))


def _address(name: str, text: str) -> Address:
    host, _, port = text.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise InvalidParameter(f"Expected {name} like 127.0.0.1:8000, got {text!r}. Nothing was started.")
    return Address(host.strip("[]"), int(port))
