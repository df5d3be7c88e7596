"""A URL key is the canonical form of a URL: no fragment, no userinfo, no default port, query kept in order.

Source of the rules: the WHATWG URL Standard, by way of the ada parser.
"""

from __future__ import annotations

import ipaddress
from functools import lru_cache

import ada_url
from publicsuffixlist import PublicSuffixList


class NotAWebUrl(ValueError):
    """A text is no absolute http or https URL."""


def url_key(text: str) -> str:
    """The URL key of a URL as given; two seeds with one key are one page.

    Raises NotAWebUrl, whose text says why.
    """
    stripped = text.strip()
    try:
        parsed = ada_url.URL(stripped)
    except ValueError as error:
        raise NotAWebUrl("it is not an absolute URL") from error
    if parsed.protocol not in ("http:", "https:"):
        raise NotAWebUrl(f"its scheme is {parsed.protocol.rstrip(':')}, not http or https")
    if not parsed.hostname:
        raise NotAWebUrl("it has no host")
    # A fragment takes a "#" and userinfo an "@"; most of a million seeds have neither, and each setter costs.
    if "#" in stripped:
        parsed.hash = ""
    if "@" in stripped:
        parsed.username = ""
        parsed.password = ""
    return str(parsed.href).removesuffix("#")


def without_userinfo(text: str) -> str:
    """The URL with user name and password taken out, for anything that is stored or shown; other text is unchanged."""
    if "@" not in text:
        return text
    try:
        parsed = ada_url.URL(text.strip())  # as a URL key is made
    except ValueError:
        return text
    if not parsed.username and not parsed.password:
        return text
    parsed.username = ""
    parsed.password = ""
    return str(parsed.href)


def host_of(key: str) -> str:
    """The authority of a URL key: host name and, if it is not the default, the port.

    A key is canonical, so that this need not be parsed, which a planner of millions would notice.
    """
    return key.split("/", 3)[2]


def hostname_of(key: str) -> str:
    """The host name of a URL key, without a port; IPv6 addresses without their brackets."""
    return str(ada_url.URL(key).hostname).strip("[]")


@lru_cache(maxsize=1)
def _public_suffixes() -> PublicSuffixList:
    """The public suffix list that its package brings along, parsed (50 ms) at its first use."""
    return PublicSuffixList()


def site_of(key: str) -> str:
    """The site of a URL key: its registrable domain, or the host name where there is none (addresses, localhost)."""
    name = hostname_of(key)
    if is_address(name):
        return name
    return _public_suffixes().privatesuffix(name) or name


def is_address(name: str) -> bool:
    """Whether a host name is an IP address."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def is_loopback(key: str) -> bool:
    """Whether a URL key names this machine: 127.0.0.0/8, ::1, localhost or a name under .localhost (RFC 6761)."""
    name = hostname_of(key).rstrip(".")
    if is_address(name):
        return ipaddress.ip_address(name).is_loopback
    return name == "localhost" or name.endswith(".localhost")


def port_of(key: str) -> int:
    """The port of a URL key, its scheme's own where none is written."""
    parsed = ada_url.URL(key)
    return int(parsed.port) if parsed.port else (443 if parsed.protocol == "https:" else 80)
