"""A policy names the permitted sites, on what basis, how they are visited, and what of one's own they are shown.

It holds references to secrets (the name of a file or of an environment variable), never a secret itself. Reading the
file is workers.policy_file's; this module only says what a policy means.
"""

from __future__ import annotations

import difflib
import ipaddress
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from hashlib import sha256
from pathlib import PurePath
from typing import Any, Final, Literal, TypeAlias

from schemas.errors import SettingError
from schemas.urls import NotAWebUrl, host_of, hostname_of, is_address, url_key
from schemas.version import PAGESTATE_VERSION

AGENT: Final = "pagestate"
"""The product token that groups of robots.txt are matched against, unless a policy gives another."""
MAX_DELAY_SECONDS: Final = 300.0
"""Longer pauses between two pages of a host would not fit a batch (workers.batch.MAX_DEADLINE_SECONDS)."""
MAX_SITE_CONCURRENCY: Final = 64

Others: TypeAlias = Literal["deny", "allow"]
Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

_TOKEN = re.compile(r"[A-Za-z][A-Za-z_-]{0,63}")
"""RFC 9309 section 2.2.1: a product token has letters, "_" and "-" only."""
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_RESERVED_HEADERS: Final = frozenset(
    {"host", "cookie", "content-length", "transfer-encoding", "connection", "user-agent", "upgrade", "te", "expect"}
)
"""Headers that a policy cannot set: they frame the request, or another key of the policy is for them."""


@dataclass(frozen=True, slots=True)
class Reference:
    """Where a secret lies: in an environment variable, or in a file beside the policy file."""

    kind: Literal["env", "file"]
    name: str

    def __str__(self) -> str:
        return f"the environment variable {self.name}" if self.kind == "env" else f"the file {self.name}"


@dataclass(frozen=True, slots=True)
class SitePolicy:
    """One permitted site: its hosts, why it may be captured, how fast, and what of one's own it is shown.

    hosts     `example.org` (its default ports), `example.org:8443`, `example.org:*`, `*.example.org` (what is below)
    delay     between the starts of two navigations to one host; None: the run's
    concurrency   pages of one host in flight; None: the run's
    """

    hosts: tuple[str, ...]
    basis: str
    delay: timedelta | None = None
    concurrency: int | None = None
    headers: tuple[tuple[str, Reference], ...] = ()
    cookies: Reference | None = None
    storage_state: Reference | None = None

    @property
    def name(self) -> str:
        """The site as messages name it."""
        return self.hosts[0]

    @property
    def has_credentials(self) -> bool:
        """Whether anything of one's own is shown to it."""
        return bool(self.headers or self.cookies or self.storage_state)


@dataclass(frozen=True, slots=True)
class Policy:
    """What may be captured. Without a policy file every site may, as far as its robots.txt permits.

    digest       SHA-256 of the file, recorded in every row; "" without one
    others       what of sites that no entry names
    allow, deny  addresses that the egress guard lets through, or keeps out, besides its own rules; deny wins
    """

    digest: str = ""
    agent: str = AGENT
    user_agent: str = ""
    contact: str = ""
    others: Others = "allow"
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    sites: tuple[SitePolicy, ...] = ()
    _by_name: dict[str, list[tuple[str, SitePolicy]]] = field(init=False, repr=False, compare=False, hash=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_name", _index(self.sites))

    @property
    def identity(self) -> str:
        """Who we are, as it stands in every user agent: name and version, and how to reach whoever runs this."""
        own = f"{AGENT}/{PAGESTATE_VERSION}"
        return f"{own} (+{self.contact})" if self.contact else own

    def site_of(self, url: str) -> SitePolicy | None:
        """The entry that names the host of a URL key, if one does; there is at most one."""
        name, port = _parts(host_of(url))
        for pattern in _patterns_for(name):
            for wanted, site in self._by_name.get(pattern, ()):
                if wanted in ("*", port):
                    return site
        return None

    def site_of_name(self, name: str) -> SitePolicy | None:
        """The entry that all ports of a host name belong to, as far as they belong to any; cookies know no ports."""
        found = {site.name: site for pattern in _patterns_for(name) for _, site in self._by_name.get(pattern, ())}
        return next(iter(found.values())) if len(found) == 1 else None

    def refusal(self, url: str) -> str:
        """Why a URL key may not be fetched; "" where it may."""
        if self.others == "allow" or self.site_of(url) is not None:
            return ""
        return f"no site of the policy file names {host_of(url)}"


def policy_from(text: bytes, raw: Mapping[str, Any], folder: PurePath) -> Policy:
    """The policy of a parsed file; `text` are the file's bytes, for its digest, and `folder` is where it lies.

    Raises SettingError, in one sentence without the file's name, for what makes no sense.
    """
    _known(raw, ("agent", "user_agent", "contact", "others", "network", "sites"), "")
    network = _table(raw.get("network", {}), "network")
    _known(network, ("allow", "deny"), "network.")
    sites = raw.get("sites", [])
    if not isinstance(sites, list) or not all(isinstance(site, Mapping) for site in sites):
        raise SettingError("its sites are no tables; write each one under [[sites]].")
    agent = _text(raw.get("agent", AGENT), "agent")
    if not _TOKEN.fullmatch(agent):
        raise SettingError(f"its agent {agent!r} is no product token; use letters, dashes and underscores.")
    user_agent = _header_text(_text(raw.get("user_agent", ""), "user_agent"), "user_agent")
    if user_agent and agent.lower() not in user_agent.lower():
        # RFC 9309 section 2.2.1: who reads the user agent must find the token there
        raise SettingError(f"its user_agent does not name its agent {agent}; put it in.")
    others = raw.get("others", "deny")
    if others not in ("deny", "allow"):
        raise SettingError(f"its others is {others!r}; give deny or allow.")
    return Policy(
        digest=sha256(text).hexdigest(),
        agent=agent,
        user_agent=user_agent,
        contact=_header_text(_text(raw.get("contact", ""), "contact"), "contact"),
        others="deny" if others == "deny" else "allow",
        allow=tuple(_networks(network.get("allow", []), "network.allow")),
        deny=tuple(_networks(network.get("deny", []), "network.deny")),
        sites=tuple(_site(site, number, folder) for number, site in enumerate(sites, start=1)),
    )


def _site(raw: Mapping[str, Any], number: int, folder: PurePath) -> SitePolicy:
    where = f"site {number}"
    _known(raw, ("hosts", "basis", "delay", "concurrency", "headers", "cookies", "storage_state"), f"{where}: ")
    hosts = raw.get("hosts", [])
    if not isinstance(hosts, list) or not hosts:
        raise SettingError(f'its {where} has no hosts; give a list such as ["example.org", "*.example.org"].')
    basis = _text(raw.get("basis", ""), f"{where}: basis").strip()
    if not basis:
        raise SettingError(f"its {where} has no basis; say in a few words why it may be captured.")
    delay, concurrency = raw.get("delay"), raw.get("concurrency")
    if delay is not None and not _number_within(delay, 0, MAX_DELAY_SECONDS):
        raise SettingError(f"its {where} has the delay {delay!r}; give 0 to {MAX_DELAY_SECONDS:g} seconds.")
    if concurrency is not None and not (
        _number_within(concurrency, 1, MAX_SITE_CONCURRENCY) and isinstance(concurrency, int)
    ):
        raise SettingError(f"its {where} has the concurrency {concurrency!r}; give 1 to {MAX_SITE_CONCURRENCY}.")
    headers = _table(raw.get("headers", {}), f"{where}: headers")
    for name in headers:
        lower = name.lower()
        if sum(lower == other.lower() for other in headers) > 1:
            raise SettingError(f"its {where} sets the header {name!r} twice, since case does not count; leave one out.")
        if not _HEADER.fullmatch(name) or lower in _RESERVED_HEADERS or lower.startswith(("sec-", "proxy-")):
            raise SettingError(f"its {where} sets the header {name!r}, which a policy cannot set; leave it out.")

    def secret(value: object, key: str) -> Reference:
        return _reference(value, f"{where}: {key}", folder)

    return SitePolicy(
        hosts=tuple(_host(host, where) for host in hosts),
        basis=basis,
        delay=None if delay is None else timedelta(seconds=delay),
        concurrency=concurrency,
        headers=tuple((name, secret(value, f"headers.{name}")) for name, value in headers.items()),
        cookies=secret(raw["cookies"], "cookies") if "cookies" in raw else None,
        storage_state=secret(raw["storage_state"], "storage_state") if "storage_state" in raw else None,
    )


def _host(given: object, where: str) -> str:
    """A host pattern in the spelling of URL keys."""
    text = given.strip() if isinstance(given, str) else ""
    below = text.startswith("*.")
    name = text.removeprefix("*.")
    any_port = name.endswith(":*")
    try:
        key = url_key(f"http://{name.removesuffix(':*')}/")
        host = host_of(key)
        is_plain = key == f"http://{host}/" and not {"*", "@"} & set(name.removesuffix(":*")) and bool(text)
    except NotAWebUrl:
        is_plain = False
    if not is_plain or (below and is_address(hostname_of(key))):
        raise SettingError(
            f"its {where} names the host {given!r}; give a name such as example.org, example.org:8443 or *.example.org."
        )
    return ("*." if below else "") + host + (":*" if any_port else "")


def _reference(value: object, where: str, folder: PurePath) -> Reference:
    if isinstance(value, Mapping) and len(value) == 1:
        kind, name = next(iter(value.items()))
        if kind == "env" and isinstance(name, str) and _VARIABLE.fullmatch(name):
            return Reference("env", name)
        if kind == "file" and isinstance(name, str) and name and "\0" not in name:
            return Reference("file", str(folder / name))
    # the value is not shown: it may be the secret itself
    raise SettingError(
        f'its {where} is no reference; a secret never stands in the policy itself: give {{ env = "NAME" }} or'
        ' { file = "PATH" }.'
    )


def _networks(given: object, where: str) -> Iterator[str]:
    if not isinstance(given, list):
        raise SettingError(f'its {where} is no list; give networks such as ["10.0.0.0/8"].')
    for text in given:
        try:
            yield str(ipaddress.ip_network(text if isinstance(text, str) else ""))
        except ValueError as error:
            raise SettingError(
                f"its {where} holds {text!r}, which is no network ({error}); write it as 10.0.0.0/8 or fd00::/8."
            ) from error


def _index(sites: Iterable[SitePolicy]) -> dict[str, list[tuple[str, SitePolicy]]]:
    """Port and site by host name pattern. Raises SettingError where two entries name one host."""
    index: dict[str, list[tuple[str, SitePolicy]]] = {}
    for site in sites:
        for host in site.hosts:
            name, port = _parts(host)
            index.setdefault(name, []).append((port, site))
    for name, entries in index.items():
        wider = [one for one in _patterns_for(name.removeprefix("*.")) if one.startswith("*.") and one != name]
        for port, site in entries:
            for pattern in (name, *wider):
                for other_port, other in index.get(pattern, ()):
                    if other is not site and (port == other_port or "*" in (port, other_port)):
                        raise SettingError(_overlap(site, name, other, pattern))
    return index


def _overlap(one: SitePolicy, host: str, other: SitePolicy, pattern: str) -> str:
    return (
        f"its sites {one.name} ({host}) and {other.name} ({pattern}) overlap; a host can belong to one entry only, so"
        " put them together or name their hosts one by one."
    )


def _patterns_for(name: str) -> Iterator[str]:
    """The patterns that match a host name: itself, then `*.` and each name above it."""
    yield name
    if is_address(name.strip("[]")):
        return
    _, dot, above = name.partition(".")
    while dot:
        yield f"*.{above}"
        _, dot, above = above.partition(".")


def _parts(host: str) -> tuple[str, str]:
    """Name and port of a host or a host pattern; the port is "" for the scheme's own and "*" for any."""
    name, colon, port = host.rpartition(":")
    if not colon or port.endswith("]"):
        return host, ""
    return name, port


def _known(raw: Mapping[str, Any], known: tuple[str, ...], where: str) -> None:
    for name in raw:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"the nearest known is {near[0]}." if near else f"known are {', '.join(known)}."
            raise SettingError(f"it has the unknown key {where}{name}; {hint}")


def _table(value: object, where: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise SettingError(f"its {where} is no table; write it as [{where}] with keys below.")
    return value


def _text(value: object, where: str) -> str:
    if not isinstance(value, str):
        raise SettingError(f"its {where} is {value!r}; give a text.")
    return value


def _header_text(value: str, where: str) -> str:
    if not value.isascii() or not value.isprintable() or len(value) > 512:
        raise SettingError(f"its {where} cannot stand in a header; use up to 512 printable ASCII letters.")
    return value


def _number_within(value: object, least: float, most: float) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and least <= value <= most


def user_agent_of(browser: str, of_profile: str, policy: Policy) -> str:
    """The user agent of a page: the policy's, else the profile's or the browser's own; who we are is never left out.

    `{chrome}` in a profile's is the browser's version.
    """
    if policy.user_agent:
        return policy.user_agent
    version = re.search(r"Chrome/([0-9.]+)", browser)
    text = of_profile.replace("{chrome}", version.group(1) if version else "0") if of_profile else browser
    return text if AGENT in text.lower() else f"{text} {policy.identity}"


NO_POLICY: Final = Policy()
"""What counts without a policy file."""
