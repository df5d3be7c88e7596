"""A policy file is read here, once, with what it refers to: everything wrong with it is said before a run starts."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Final

from schemas.errors import SettingError
from schemas.policy import Policy, policy_from

MAX_POLICY_BYTES: Final = 16 * 1024 * 1024
"""Some hundred thousand sites; guards against a wrong file."""


def read_policy(path: str) -> Policy:
    """The policy in a TOML file. Raises SettingError for one that cannot be read or makes no sense."""
    try:
        with Path(path).open("rb") as file:
            data = file.read(MAX_POLICY_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise SettingError(f"The policy file {path} cannot be read: {reason}; give a TOML file.") from error
    if len(data) > MAX_POLICY_BYTES:
        raise SettingError(f"The policy file {path} is larger than {MAX_POLICY_BYTES} bytes; is it the right one?")
    try:
        raw = tomllib.loads(data.decode("utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise SettingError(f"The policy file {path} is no TOML: {error}.") from error
    try:
        return policy_from(data, raw, Path(path).absolute().parent)
    except SettingError as error:
        raise SettingError(f"The policy file {path} cannot be used: {error}") from error
