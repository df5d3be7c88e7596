"""Chromium's network error codes, each with the outcome it means.

Source of the codes: net/base/net_error_list.h of Chromium.
"""

from __future__ import annotations

import re

from schemas.outcomes import Outcome

_CODE = re.compile(r"net::(ERR_[A-Z0-9_]+)")

_BY_CODE: dict[str, Outcome] = {
    "ERR_NAME_NOT_RESOLVED": "dns_error",
    "ERR_NAME_RESOLUTION_FAILED": "dns_error",
    "ERR_DNS_TIMED_OUT": "dns_error",
    "ERR_DNS_MALFORMED_RESPONSE": "dns_error",
    "ERR_DNS_SERVER_FAILED": "dns_error",
    "ERR_ICANN_NAME_COLLISION": "dns_error",
    "ERR_CONNECTION_REFUSED": "connection_error",
    "ERR_CONNECTION_RESET": "connection_error",
    "ERR_CONNECTION_CLOSED": "connection_error",
    "ERR_CONNECTION_ABORTED": "connection_error",
    "ERR_CONNECTION_FAILED": "connection_error",
    "ERR_CONNECTION_TIMED_OUT": "connection_error",
    "ERR_ADDRESS_UNREACHABLE": "connection_error",
    "ERR_ADDRESS_INVALID": "connection_error",
    "ERR_INTERNET_DISCONNECTED": "connection_error",
    "ERR_NETWORK_CHANGED": "connection_error",
    "ERR_NETWORK_ACCESS_DENIED": "connection_error",
    "ERR_SOCKET_NOT_CONNECTED": "connection_error",
    "ERR_TUNNEL_CONNECTION_FAILED": "connection_error",
    "ERR_PROXY_CONNECTION_FAILED": "connection_error",
    "ERR_SOCKS_CONNECTION_FAILED": "connection_error",
    "ERR_SOCKS_CONNECTION_HOST_UNREACHABLE": "dns_error",
    "ERR_EMPTY_RESPONSE": "connection_error",
    "ERR_TIMED_OUT": "connection_error",
    "ERR_TOO_MANY_REDIRECTS": "redirect_loop",
    "ERR_INVALID_AUTH_CREDENTIALS": "auth_required",
    "ERR_UNEXPECTED_PROXY_AUTH": "auth_required",
    "ERR_HTTP_RESPONSE_CODE_FAILURE": "http_error",
    "ERR_ABORTED": "empty",
    "ERR_UNSAFE_PORT": "policy_denied",
    "ERR_UNSAFE_REDIRECT": "protocol_error",
    "ERR_BLOCKED_BY_CLIENT": "policy_denied",
    "ERR_BLOCKED_BY_ADMINISTRATOR": "policy_denied",
    "ERR_INSUFFICIENT_RESOURCES": "too_large",
    "ERR_OUT_OF_MEMORY": "too_large",
}

_BY_PREFIX: tuple[tuple[str, Outcome], ...] = (
    ("ERR_CERT_", "tls_error"),
    ("ERR_SSL_", "tls_error"),
    ("ERR_BAD_SSL_", "tls_error"),
    ("ERR_ECH_", "tls_error"),
)


def outcome_of_net_error(text: str) -> tuple[Outcome, str]:
    """The outcome and the code named in a text; a code that is not listed broke some protocol."""
    found = _CODE.search(text)
    if found is None:
        return "protocol_error", ""
    code = found.group(1)
    if code in _BY_CODE:
        return _BY_CODE[code], code
    for prefix, outcome in _BY_PREFIX:
        if code.startswith(prefix):
            return outcome, code
    return "protocol_error", code
