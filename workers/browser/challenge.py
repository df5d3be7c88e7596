"""A challenge or block page is told by its signal, never answered: what stands in its answer, or in its document."""

from __future__ import annotations

from collections.abc import Mapping

SUSPICIOUS_STATUSES = frozenset({202, 401, 403, 405, 406, 412, 418, 429, 444, 503})
"""Statuses that challenge and block pages come with; only then is the document looked through for marks."""

HEADERS: Mapping[str, frozenset[str]] = {
    # https://developers.cloudflare.com/cloudflare-challenges/challenge-types/challenge-pages/detect-response/
    "cf-mitigated": frozenset({"challenge"}),
    # https://docs.aws.amazon.com/waf/latest/developerguide/waf-captcha-and-challenge-how-it-works.html
    "x-amzn-waf-action": frozenset({"challenge", "captcha"}),
    "x-vercel-mitigated": frozenset({"challenge", "deny"}),
    "x-datadome": frozenset({"protected"}),
}
"""Header -> values that say it, whatever the status."""

ONLY_WITH_A_REFUSAL = frozenset({"x-datadome"})
"""Headers that ordinary pages of protected sites carry too."""

MARKS: Mapping[str, str] = {
    "cloudflare": '#challenge-form, #challenge-running, #cf-error-details, script[src*="/cdn-cgi/challenge-platform/"]',
    "datadome": 'script[src*="captcha-delivery.com"], iframe[src*="captcha-delivery.com"]',
    "human": "#px-captcha",
    "imperva": 'iframe[src*="_Incapsula_Resource"], script[src*="_Incapsula_Resource"]',
    "akamai": 'script[src*="/_sec/cp_challenge/"], #sec-if-cpt-container',
    "aws-waf": '#challenge-container, script[src*=".token.awswaf.com/"]',
    "sucuri": 'link[href*="sucuri.net/sucuri-firewall-block.css"]',
    "captcha": 'iframe[src*="hcaptcha.com"], iframe[src*="/recaptcha/"], iframe[src*="challenges.cloudflare.com"]',
}
"""Name -> CSS selector of what its challenge and block pages hold; looked for with a suspicious status only."""


def signal_in_headers(status: int | None, headers: Mapping[str, str]) -> str | None:
    """The signal among an answer's headers, as `name: value`."""
    for name, values in HEADERS.items():
        value = headers.get(name, "").strip().lower()
        if value in values:
            if name in ONLY_WITH_A_REFUSAL and status not in SUSPICIOUS_STATUSES:
                continue
            return f"{name}: {value}"
    return None
