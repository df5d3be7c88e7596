"""Every network error of Chromium has an outcome, and every outcome named is one of the closed set."""

from __future__ import annotations

import pytest

from schemas.outcomes import OUTCOMES
from workers.browser import net_errors
from workers.browser.net_errors import outcome_of_net_error


def test_every_outcome_named_is_one_of_the_closed_set():
    named = {*net_errors._BY_CODE.values(), *(outcome for _, outcome in net_errors._BY_PREFIX)}
    assert named <= set(OUTCOMES)


def test_every_code_is_spelt_as_chromium_spells_it():
    for code in net_errors._BY_CODE:
        assert outcome_of_net_error(f"Page.goto: net::{code} at http://h.test/") == (net_errors._BY_CODE[code], code)


@pytest.mark.parametrize(
    ("text", "outcome", "code"),
    [
        ("Page.goto: net::ERR_NAME_NOT_RESOLVED at http://h.test/", "dns_error", "ERR_NAME_NOT_RESOLVED"),
        ("net::ERR_CERT_DATE_INVALID", "tls_error", "ERR_CERT_DATE_INVALID"),
        ("net::ERR_SSL_PROTOCOL_ERROR", "tls_error", "ERR_SSL_PROTOCOL_ERROR"),
        ("net::ERR_BAD_SSL_CLIENT_AUTH_CERT", "tls_error", "ERR_BAD_SSL_CLIENT_AUTH_CERT"),
        ("net::ERR_ECH_NOT_NEGOTIATED", "tls_error", "ERR_ECH_NOT_NEGOTIATED"),
        ("net::ERR_TOO_MANY_REDIRECTS", "redirect_loop", "ERR_TOO_MANY_REDIRECTS"),
        ("net::ERR_INVALID_CHUNKED_ENCODING", "protocol_error", "ERR_INVALID_CHUNKED_ENCODING"),
        ("net::ERR_NEWER_THAN_THIS_TABLE", "protocol_error", "ERR_NEWER_THAN_THIS_TABLE"),
        ("Protocol error (Page.navigate): Cannot navigate to invalid URL", "protocol_error", ""),
        ("", "protocol_error", ""),
    ],
)
def test_a_text_gives_its_outcome_and_code(text, outcome, code):
    """TLS errors have an outcome of their own, with their code (pain 57)."""
    assert outcome_of_net_error(text) == (outcome, code)
