"""Credentials are what one's own sites are shown: headers, cookies, local storage. They are read once, kept in memory,
sent to their site only, and masked where a page repeats them; no row, log or bundle ever holds one.
"""

from __future__ import annotations

import json
import os
from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, quote_plus, unquote

from schemas.capture import Buffer, Capture
from schemas.errors import SettingError
from schemas.policy import Policy, Reference, SitePolicy
from schemas.urls import NotAWebUrl, url_key

MAX_SECRET_BYTES: Final = 4 * 1024 * 1024
MIN_MASKED_CHARS: Final = 6
"""A shorter value is in every page; masking it would hide the page and not the secret."""
MAX_PARTS_DEPTH: Final = 4
"""So often a value that holds another one (JSON in a percent-encoded cookie, in JSON) is opened."""
MASK: Final = "\u2022" * 8
_COOKIE_KEYS: Final = ("name", "value", "path", "expires", "httpOnly", "secure", "sameSite")


@dataclass(frozen=True, slots=True)
class Credentials:
    """What one site is shown.

    cookies   as CDP's Network.setCookies takes them
    storage   local storage by origin
    """

    site: SitePolicy
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    cookies: tuple[dict[str, Any], ...] = field(default=(), repr=False)
    storage: Mapping[str, Mapping[str, str]] = field(default_factory=dict, repr=False)

    _secrets: tuple[str, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        given = [value for _, value in self.headers] + [str(cookie["value"]) for cookie in self.cookies]
        given += [value for items in self.storage.values() for value in items.values()]
        values = {spelt for value in given for part in _parts(value) for spelt in _spellings(part)}
        kept = sorted((v for v in values if len(v) >= MIN_MASKED_CHARS), key=lambda v: (-len(v), v))
        object.__setattr__(self, "_secrets", tuple(kept))

    def secrets(self) -> tuple[str, ...]:
        """Every value that must not be stored, in every spelling that a page has at hand, longest first."""
        return self._secrets


def _parts(value: str, depth: int = MAX_PARTS_DEPTH) -> Iterator[str]:
    """A value and what is secret in it by itself: "Bearer abc" also as "abc", JSON also as each text in it.

    Of "Basic ...", which is no more than another spelling, the password, and the pair that it is half of.
    """
    yield value
    words = value.split()
    if len(words) > 1:
        yield from words
    if words[:1] and words[0].lower() == "basic" and len(words) == 2:
        with suppress(ValueError):
            pair = b64decode(words[1], validate=True).decode()
            yield from (pair, pair.partition(":")[2])
    if (plain := unquote(value)) != value and depth:
        yield from _parts(plain, depth - 1)
    if value.lstrip()[:1] in ("{", "[", '"') and depth:
        with suppress(ValueError, RecursionError):
            for text in _texts(json.loads(value)):
                yield from _parts(text, depth - 1)


def _texts(value: object) -> Iterator[str]:
    """Every text in a JSON value; the names of members are no secrets."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, list | dict):
            waiting += one.values() if isinstance(one, dict) else one


def _spellings(value: str) -> set[str]:
    """A value as it is, and as it stands in a URL: as JavaScript and as forms write it there."""
    raw = value.encode("utf-8", "replace")
    return {value, quote(raw, safe="-_.!~*'()"), quote_plus(raw, safe="*-._")}


def load_credentials(policy: Policy) -> dict[str, Credentials]:
    """The credentials of every site that has some, by the site's name.

    Raises SettingError, which never quotes a value, where one cannot be read or belongs to no host of its site.
    """
    return {site.name: _of_site(site, policy) for site in policy.sites if site.has_credentials}


def masked(text: str, secrets: Iterable[str]) -> str:
    """The text with every secret in it replaced by eight bullets."""
    for secret in secrets:
        if secret in text:
            text = text.replace(secret, MASK)
    return text


def mask_repeated(capture: Capture, secrets: Sequence[str]) -> tuple[Capture, int]:
    """The capture with every secret in it replaced, and in how many of its payloads one was found."""
    if not secrets:
        return capture, 0
    payloads = [(payload, _masked_json(payload.data, secrets)) for payload in capture.payloads]
    found = sum(clean is not None for _, clean in payloads)
    return Capture(tuple(p if clean is None else replace(p, data=clean) for p, clean in payloads)), found


def _masked_json(data: Buffer, secrets: Iterable[str]) -> bytes | None:
    """JSON text with every secret in its strings replaced; None where it holds none."""
    found = False
    whole = bytes(data)
    for secret in secrets:
        # as Chromium spells it: UTF-8, with the two characters escaped that must be; others spell it in ASCII
        for spelt in {json.dumps(secret, ensure_ascii=False)[1:-1], json.dumps(secret)[1:-1]}:
            if (raw := spelt.encode("utf-8", "surrogatepass")) in whole:
                whole, found = whole.replace(raw, MASK.encode()), True
    return whole if found else None


def _of_site(site: SitePolicy, policy: Policy) -> Credentials:
    headers = tuple((name, _header(_read(reference, site), name, site)) for name, reference in site.headers)
    cookies: list[dict[str, Any]] = []
    storage: dict[str, dict[str, str]] = {}
    if site.cookies is not None:
        given = _json(site.cookies, site)
        cookies += _cookies(given if isinstance(given, list) else None, site.cookies, site, policy)
    if site.storage_state is not None:
        state = _json(site.storage_state, site)
        if not isinstance(state, dict):
            raise _wrong(site.storage_state, site, "is no storage state of Playwright")
        cookies += _cookies(state.get("cookies", []), site.storage_state, site, policy)
        storage = _storage(state.get("origins", []), site.storage_state, site, policy)
        if not cookies and not storage:
            raise _wrong(site.storage_state, site, "holds nothing for the hosts of its site")
    return Credentials(site, headers, tuple(cookies), storage)


def _cookies(given: object, source: Reference, site: SitePolicy, policy: Policy) -> list[dict[str, Any]]:
    """The cookies that belong to the site's own hosts; those of other sites in a storage state stay away from it."""
    if not isinstance(given, list) or not all(
        isinstance(c, dict) and all(isinstance(c.get(k), str) for k in ("name", "value", "domain")) for c in given
    ):
        raise _wrong(source, site, "is no list of cookies with name, value and domain")
    kept = []
    for cookie in given:
        domain = cookie["domain"]
        # one with a leading dot is sent to every host below, too, so that these must be the site's
        names = [domain] if not domain.startswith(".") else [domain[1:], f"any{domain}"]
        if all(policy.site_of_name(name.lower()) is site for name in names):
            plain = {key: cookie[key] for key in _COOKIE_KEYS if cookie.get(key) is not None}
            if (key := _odd_key(plain)) is not None:
                raise _wrong(source, site, f"has a cookie whose {key} no browser takes")
            if plain.get("expires") == -1:
                del plain["expires"]  # Playwright's way to say: until the session ends
            kept.append({**plain, "domain": domain})
    if given and not kept and source is site.cookies:
        raise _wrong(source, site, "holds no cookie for the hosts of its site")
    return kept


def _odd_key(cookie: dict[str, Any]) -> str | None:
    """What of a cookie no browser takes; it would cost every page of its site."""
    fine = {
        "name": not set("=;") & set(cookie["name"]) and _is_plain(cookie["name"]),
        "value": ";" not in cookie["value"] and _is_plain(cookie["value"]),
        "path": isinstance(path := cookie.get("path", "/"), str) and path.startswith("/") and _is_plain(path),
        "expires": isinstance(at := cookie.get("expires", 0), int | float) and not isinstance(at, bool),
        "httpOnly": isinstance(cookie.get("httpOnly", False), bool),
        "secure": isinstance(cookie.get("secure", False), bool),
        "sameSite": cookie.get("sameSite", "Lax") in ("Strict", "Lax", "None"),
    }
    return next((key for key, is_fine in fine.items() if not is_fine), None)


def _is_plain(text: str) -> bool:
    """Whether a text has neither a control character nor half a surrogate pair."""
    return not any(ch < " " or ch == "\x7f" or "\ud800" <= ch <= "\udfff" for ch in text)


def _storage(given: object, source: Reference, site: SitePolicy, policy: Policy) -> dict[str, dict[str, str]]:
    storage: dict[str, dict[str, str]] = {}
    try:
        entries: list[Any] = given if isinstance(given, list) else [None]
        for entry in entries:
            origin, items = entry["origin"], entry.get("localStorage", [])
            if policy.site_of(url_key(origin)) is site and items:
                storage[str(origin)] = {str(item["name"]): str(item["value"]) for item in items}
    except (TypeError, KeyError, AttributeError, NotAWebUrl) as error:
        raise _wrong(source, site, "has origins that make no sense") from error
    return storage


def _header(value: str, name: str, site: SitePolicy) -> str:
    text = value.strip()
    if not text or not text.isprintable() or not text.isascii():
        raise SettingError(
            f"The header {name} for {site.name} has a value that no header can have; give one line of printable ASCII."
        )
    return text


def _json(reference: Reference, site: SitePolicy) -> object:
    try:
        return json.loads(_read(reference, site))
    except (ValueError, RecursionError) as error:
        raise _wrong(reference, site, "is no JSON") from error


def _read(reference: Reference, site: SitePolicy) -> str:
    if reference.kind == "env":
        if (value := os.environ.get(reference.name)) is None:
            raise _wrong(reference, site, "is not set")
        return value
    try:
        with Path(reference.name).open("rb") as file:
            data = file.read(MAX_SECRET_BYTES + 1)
        if len(data) > MAX_SECRET_BYTES:
            raise _wrong(reference, site, f"is larger than {MAX_SECRET_BYTES} bytes")
        return data.decode("utf-8-sig")
    except OSError as error:
        raise _wrong(reference, site, f"cannot be read ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise _wrong(reference, site, "is not UTF-8 text") from error


def _wrong(reference: Reference, site: SitePolicy, what: str) -> SettingError:
    text = str(reference)
    return SettingError(
        f"{text[0].upper()}{text[1:]}, which the policy names for {site.name}, {what}; mend it or the policy."
    )


def without_secrets(value: Any, secrets: tuple[str, ...]) -> Any:
    """A column's value with every secret in its texts masked."""
    if isinstance(value, str):
        return masked(value, secrets)
    return [without_secrets(item, secrets) for item in value] if isinstance(value, list) else value
