"""The addresses of servers, checked: the libraries' own complaints would quote the password in them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import parse_qs, unquote, urlsplit

from rqmail.text.values import checked_line

_HOST_WITH_PORT = re.compile(r"(?:\[(?P<six>[0-9A-Fa-f:.%]+)\]|(?P<name>[^\[\]:]*))(?::(?P<port>.*))?")
_BROKEN_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")
_SENTINEL_PATH = re.compile(r"/(?P<service>[A-Za-z0-9._-]+)(?:/(?P<db>[0-9]{1,9})?)?")
_SENTINEL_PORT = 26379

#: What may stand after the ? of Redis' address: the rest redis-py tells in tracebacks, or its time-outs go before ours.
_A_TEXT = ("a text", re.compile(r".+"))
_REDIS_OPTIONS = {
    "db": ("a whole number", re.compile(r"[0-9]{1,9}")),
    "username": _A_TEXT,
    "password": _A_TEXT,
    "client_name": _A_TEXT,
    "protocol": ("2 or 3", re.compile(r"[23]")),
}
_TLS_OPTIONS = {
    "ssl_cert_reqs": ("none, optional or required", re.compile(r"none|optional|required")),
    "ssl_check_hostname": ("yes or no", re.compile(r"(?i)yes|no|true|false|1|0")),
    "ssl_ca_certs": _A_TEXT,
    "ssl_ca_path": _A_TEXT,
    "ssl_certfile": _A_TEXT,
    "ssl_keyfile": _A_TEXT,
    "ssl_password": _A_TEXT,
}
#: How Sentinel itself is signed in to, where it wants that.
_SENTINEL_OPTIONS = {"sentinel_username": _A_TEXT, "sentinel_password": _A_TEXT}
_OPTIONS = {
    "redis": _REDIS_OPTIONS,
    "unix": _REDIS_OPTIONS,
    "rediss": _REDIS_OPTIONS | _TLS_OPTIONS,
    "redis+sentinel": _SENTINEL_OPTIONS,
    "rediss+sentinel": _SENTINEL_OPTIONS | _TLS_OPTIONS,
}


@dataclass(frozen=True, slots=True)
class SentinelAddress:
    """Where Sentinels are, what they call the service, and how its primary and they themselves are signed in to."""

    sentinels: tuple[tuple[str, int], ...]
    service: str
    db: int
    username: str | None
    password: str | None
    sentinel_username: str | None
    sentinel_password: str | None
    tls: dict[str, str | bool] | None


def checked_server_address(value: str) -> str:
    """Answer the address of a server, with a user, a password and ports that its client library can read."""
    netloc, _, path = checked_line(value, "visible characters").split("://", 1)[1].partition("?")[0].partition("/")
    userinfo, _, hosts = netloc.rpartition("@")
    if "@" in path or "#" in value:
        raise ValueError("in user and password, / is written %2F, # is written %23 and ? is written %3F")
    if _BROKEN_PERCENT.search(userinfo):
        raise ValueError("in user and password, % is written %25")
    if "[" in userinfo or "]" in userinfo:
        raise ValueError("in user and password, [ is written %5B and ] is written %5D")
    try:
        unquote(userinfo, errors="strict")
    except UnicodeDecodeError:
        raise ValueError("what %XX stands for in user and password is UTF-8") from None
    for host in hosts.split(","):
        match = _HOST_WITH_PORT.fullmatch(host)
        port = match["port"] if match else "?"
        if port and not (port.isascii() and port.isdigit() and 0 < int(port) <= 65_535):
            raise ValueError("the port is a number from 1 to 65535")
    return value


def checked_redis_address(value: str) -> str:
    """Answer the address of Redis: of a server, with or without TLS, of a socket, or of Sentinels that know it."""
    scheme = value.partition("://")[0]
    if scheme not in _OPTIONS or "://" not in value:
        raise ValueError
    place = urlsplit(checked_line(value, "visible characters") if scheme == "unix" else checked_server_address(value))
    if scheme.endswith("+sentinel"):
        if not _SENTINEL_PATH.fullmatch(place.path):
            raise ValueError("behind the Sentinels stands /SERVICE/DB, DB a number")
        if not all(host.partition(":")[0] for host in place.netloc.rpartition("@")[2].split(",")):
            raise ValueError("each Sentinel is HOST:PORT")
    elif scheme != "unix" and not re.fullmatch(r"/?[0-9]{0,9}/?", place.path):
        raise ValueError("DB is a number")
    options = _OPTIONS[scheme]
    for name, given in parse_qs(place.query, keep_blank_values=True).items():
        if name not in options:
            raise ValueError(f"after ? may stand {', '.join(options)}")
        what, allowed = options[name]
        if not allowed.fullmatch(given[0]):
            raise ValueError(f"{name} is {what}")
    return value


def sentinel_address(url: str) -> SentinelAddress | None:
    """Read the address of Sentinels, one that was checked; ``None`` for any other address."""
    scheme, _, rest = url.partition("://")
    if not scheme.endswith("+sentinel"):
        return None
    before, _, query = rest.partition("?")
    netloc, _, path = before.partition("/")
    userinfo, _, hosts = netloc.rpartition("@")
    user, _, password = userinfo.partition(":")
    found = _SENTINEL_PATH.fullmatch(f"/{path}")
    if found is None:
        return None
    options = {name: given[0] for name, given in parse_qs(query).items()}
    tls: dict[str, str | bool] = {name: given for name, given in options.items() if name in _TLS_OPTIONS}
    if "ssl_check_hostname" in tls:
        tls["ssl_check_hostname"] = str(tls["ssl_check_hostname"]).lower() in {"yes", "true", "1"}
    return SentinelAddress(
        sentinels=tuple(_host_and_port(one) for one in hosts.split(",")),
        service=found["service"],
        db=int(found["db"] or 0),
        username=unquote(user) or None,
        password=unquote(password) or None,
        sentinel_username=options.get("sentinel_username"),
        sentinel_password=options.get("sentinel_password"),
        tls=tls if scheme == "rediss+sentinel" else None,
    )


def _host_and_port(text: str) -> tuple[str, int]:
    match = _HOST_WITH_PORT.fullmatch(text)
    if match is None:
        return text, _SENTINEL_PORT
    return match["six"] or match["name"], int(match["port"] or _SENTINEL_PORT)
