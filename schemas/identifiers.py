"""Identifiers are pure functions of what they identify, except the attempt's, which is random.

Fields are joined as a JSON array before hashing, so that no two lists of fields can collide by concatenation.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import blake2b


def _digest(fields: Sequence[object], size_bytes: int) -> bytes:
    text = json.dumps(list(fields), ensure_ascii=True, separators=(",", ":"))
    return blake2b(text.encode("ascii"), digest_size=size_bytes).digest()


def lane_of(host: str, lanes: int) -> int:
    """The lane of a host: BLAKE2b-64(host) mod lanes. Every URL of a host is in one lane."""
    return int.from_bytes(blake2b(host.encode("utf-8"), digest_size=8).digest(), "big") % lanes


def page_id(crawl: str, round_number: int, url_key: str, profile: str) -> str:
    """BLAKE2b-128 of (crawl, round, URL key, profile) in hex; joins the tables."""
    return _digest((crawl, round_number, url_key, profile), 16).hex()


def batch_id(crawl: str, round_number: int, lane: int, sequence: int, url_keys: Sequence[str]) -> str:
    """BLAKE2b-128 of (crawl, round, lane, sequence, URL keys) in hex."""
    return _digest((crawl, round_number, lane, sequence, list(url_keys)), 16).hex()


def settings_hash(settings: dict[str, object]) -> str:
    """BLAKE2b-128 of settings in hex, whatever the order of their keys."""
    text = json.dumps(settings, ensure_ascii=True, separators=(",", ":"), sort_keys=True)
    return blake2b(text.encode("ascii"), digest_size=16).hexdigest()


def attempt_id(random_bytes: bytes) -> str:
    """The id of one execution of a batch: 128 random bits in hex. The caller brings the randomness."""
    if len(random_bytes) != 16:
        raise ValueError("an attempt id takes 16 random bytes")
    return random_bytes.hex()


def host_hash(origin: str) -> str:
    """BLAKE2b-128 of an origin in hex: a name for its robots.txt that every store takes."""
    return _digest((origin,), 16).hex()
