"""What a policy file means, and what is said of one that means nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from schemas.errors import SettingError
from schemas.policy import Policy, user_agent_of
from workers.credentials import load_credentials, masked
from workers.policy_file import read_policy

WHOLE = """
agent = "examplebot"
user_agent = "Examplebot/2.0 (+https://example.org/bot)"
contact = "crawler@example.org"
others = "allow"

[network]
allow = ["10.1.0.0/16", "fd00::/8"]
deny = ["10.1.9.0/24"]

[[sites]]
hosts = ["Example.org", "*.example.org:*", "b\u00fccher.example", "[::1]:8443"]
basis = "our own site"
delay = 0.5
concurrency = 4
headers.Authorization = { env = "EXAMPLE_TOKEN" }
cookies = { file = "cookies.json" }

[[sites]]
hosts = ["example.org:8080", "other.example"]
basis = "written permission of 2026-03-01"
"""


@pytest.fixture
def policy_of(tmp_path: Path):
    """Reads a policy from a file with this text."""

    def read(text: str | bytes) -> Policy:
        file = tmp_path / "policy.toml"
        file.write_bytes(text.encode() if isinstance(text, str) else text)
        return read_policy(str(file))

    return read


def site(*hosts: str, more: str = "") -> str:
    return f'[[sites]]\nhosts = {json.dumps(hosts)}\nbasis = "b"\n{more}\n'


def test_a_whole_policy(policy_of, tmp_path):
    policy = policy_of(WHOLE)
    first, second = policy.sites
    assert (policy.agent, policy.others, policy.allow, policy.deny) == (
        *("examplebot", "allow", ("10.1.0.0/16", "fd00::/8")),
        ("10.1.9.0/24",),
    )
    assert first.hosts == ("example.org", "*.example.org:*", "xn--bcher-kva.example", "[::1]:8443")
    assert str(first.cookies) == f"the file {tmp_path / 'cookies.json'}"
    of = {
        "https://example.org/a": first,
        "http://example.org/": first,
        "https://example.org:8080/": second,
        "https://example.org:8081/": None,
        "https://a.b.example.org:99/": first,
        "https://notexample.org/": None,
        "https://xn--bcher-kva.example/": first,
        "http://[::1]:8443/": first,
        "https://other.example/": second,
        "https://www.other.example/": None,
    }
    assert {url: policy.site_of(url) for url in of} == of
    assert [policy.site_of_name(name) for name in ("example.org", "x.example.org", "other.example", "y")] == [
        *(None, first, second, None),
    ]


def test_a_policy_file_refuses_what_it_does_not_name_and_no_file_refuses_nothing(policy_of):
    policy = policy_of(site("example.org"))
    assert policy.refusal("https://example.org/") == ""
    assert "no site of the policy file names other.test" in policy.refusal("https://other.test/")
    assert Policy().refusal("https://other.test/") == ""


WRONG = {
    "unknown key": ("contakt = 'x'", "unknown key contakt; the nearest known is contact."),
    "unknown key of a site": (site("a.test", more="dealy = 1"), "site 1: dealy; the nearest known is delay."),
    "unknown key of the network": ("[network]\nopen = []", "network.open; known are allow, deny"),
    "bad CIDR": ('[network]\nallow = ["10.0.0.1/8"]', "'10.0.0.1/8', which is no network"),
    "no CIDR": ('[network]\ndeny = ["intranet"]', "'intranet', which is no network"),
    "networks": ('[network]\ndeny = "10.0.0.0/8"', "network.deny is no list"),
    "same host": (site("a.test") + site("b.test", "a.test"), "a.test (a.test) and b.test (a.test) overlap"),
    "wildcard": (site("*.a.test") + site("x.a.test"), "overlap"),
    "wildcards": (site("*.b.a.test") + site("*.a.test"), "overlap"),
    "ports": (site("a.test:*") + site("a.test:81"), "overlap"),
    "a URL": (site("https://a.test"), "names the host 'https://a.test'"),
    "a path": (site("a.test/x"), "names the host"),
    "all hosts": (site("*"), "names the host"),
    "userinfo": (site("me@a.test"), "names the host"),
    "a wildcard address": (site("*.127.0.0.1"), "names the host"),
    "no hosts": ("[[sites]]\nbasis = 'b'", "site 1 has no hosts"),
    "no basis": ("[[sites]]\nhosts = ['a.test']", "site 1 has no basis"),
    "delay": (site("a.test", more="delay = 301"), "give 0 to 300 seconds"),
    "delay nan": (site("a.test", more="delay = nan"), "give 0 to 300 seconds"),
    "concurrency": (site("a.test", more="concurrency = 0"), "give 1 to 64"),
    "secret inside": (site("a.test", more='headers.X = "s3cret"'), "headers.X is no reference"),
    "cookie header": (site("a.test", more='headers.Cookie = { env = "X" }'), "'Cookie', which a policy cannot set"),
    "user agent header": (site("a.test", more='headers.user-agent = { env = "X" }'), "cannot set"),
    "others": ("others = 'ask'", "give deny or allow"),
    "agent": ("agent = 'bot 1'", "no product token"),
    "silent agent": ("agent = 'mybot'\nuser_agent = 'Mozilla'", "does not name its agent mybot"),
    "contact": ('contact = "x\\ny"', "cannot stand in a header"),
    "no TOML": ("[[", "is no TOML"),
    "binary": (b"\xff\xfe\x00", "is no TOML"),
    "sites": ("sites = 3", "sites are no tables"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_said_in_one_sentence(policy_of, case):
    text, said = WRONG[case]
    with pytest.raises(SettingError) as raised:
        policy_of(text)
    message = str(raised.value)
    assert said in message
    assert message.startswith("The policy file ")
    assert "\n" not in message
    assert "s3cret" not in message


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(SettingError, match="cannot be read: No such file"):
        read_policy(str(tmp_path / "none.toml"))


def test_ten_thousand_sites_are_read_and_found(policy_of):
    policy = policy_of("".join(site(f"h{n}.test", f"*.h{n}.test") for n in range(10_000)))
    found = policy.site_of("https://www.h9999.test/")
    assert found is policy.sites[9999]


HEADLESS = "Mozilla/5.0 HeadlessChrome/156.0.1.2 Safari/537.36"


def test_who_we_are_is_in_every_user_agent(policy_of):
    assert user_agent_of(HEADLESS, "", Policy()).startswith(f"{HEADLESS} pagestate/")
    contact = policy_of("contact = 'https://example.org/bot'")
    assert user_agent_of(HEADLESS, "Mobile Chrome/{chrome}", contact).endswith(" (+https://example.org/bot)")
    assert "Mobile Chrome/156.0.1.2 pagestate/" in user_agent_of(HEADLESS, "Mobile Chrome/{chrome}", contact)
    assert user_agent_of(HEADLESS, "", policy_of(WHOLE)) == "Examplebot/2.0 (+https://example.org/bot)"


STATE = {
    "cookies": [
        {"name": "s", "value": "cookie-secret", "domain": "a.test", "path": "/", "expires": -1, "sameSite": "Lax"},
        {"name": "w", "value": "wide", "domain": ".a.test", "path": "/"},
        {"name": "o", "value": "other", "domain": "b.test", "path": "/"},
    ],
    "origins": [
        {"origin": "https://a.test", "localStorage": [{"name": "token", "value": "stored-secret"}]},
        {"origin": "https://b.test", "localStorage": [{"name": "token", "value": "other"}]},
    ],
}


def test_credentials_are_those_of_the_site_alone(policy_of, tmp_path, monkeypatch):
    """What a storage state holds for other sites, or for hosts below that the entry does not name, is left out."""
    (tmp_path / "state.json").write_text(json.dumps(STATE))
    monkeypatch.setenv("TOKEN", "Bearer header-secret\n")
    policy = policy_of(
        site("a.test", more='headers.Authorization = { env = "TOKEN" }\nstorage_state = { file = "state.json" }')
    )
    own = load_credentials(policy)["a.test"]
    assert own.headers == (("Authorization", "Bearer header-secret"),)
    assert own.cookies == ({"name": "s", "value": "cookie-secret", "domain": "a.test", "path": "/", "sameSite": "Lax"},)
    assert own.storage == {"https://a.test": {"token": "stored-secret"}}
    assert "secret" not in repr(own)
    assert masked("x header-secret y cookie-secret z stored-secret", own.secrets()).count("\u2022" * 8) == 3


UNUSABLE = {
    "not set": ('headers.X = { env = "PAGESTATE_TEST_NONE" }', "is not set"),
    "no file": ('cookies = { file = "none.json" }', "cannot be read (No such file"),
    "no JSON": ('cookies = { file = "text" }', "is no JSON"),
    "no list": ('cookies = { file = "object" }', "is no list of cookies"),
    "of another site": ('cookies = { file = "others" }', "holds no cookie for the hosts of its site"),
    "no state": ('storage_state = { file = "others" }', "is no storage state"),
    "empty state": ('storage_state = { file = "object" }', "holds nothing for the hosts"),
    "two lines": ('headers.X = { file = "lines" }', "no header can have"),
}


@pytest.mark.parametrize("case", UNUSABLE)
def test_credentials_that_cannot_be_used(policy_of, tmp_path, case):
    """The message names the place and never what stands in it."""
    more, said = UNUSABLE[case]
    (tmp_path / "text").write_text("s3cret")
    (tmp_path / "object").write_text('{"s3cret": 1}')
    (tmp_path / "others").write_text('[{"name": "n", "value": "s3cret", "domain": "b.test"}]')
    (tmp_path / "lines").write_text("s3cret\r\nX-Other: 1")
    with pytest.raises(SettingError) as raised:
        load_credentials(policy_of(site("a.test", more=more)))
    assert said in str(raised.value)
    assert "a.test" in str(raised.value)
    assert "s3cret" not in str(raised.value)


def test_a_secret_is_masked_in_every_spelling_that_a_page_has_at_hand(tmp_path, monkeypatch):
    """In JSON that is stored, in JSON in a percent-encoded cookie, in Basic authentication, and encoded in a URL."""
    monkeypatch.setenv("PAGESTATE_TEST_TOKEN", "Basic YWRhOnBhNTV3b3JkIXg=")
    cookie = "%7B%22id%22%3A%22inner%2Ft%3Dken%21%22%7D"
    held = json.dumps({"user": {"token": "held-token", "n": 1}, "nested": json.dumps(["deeper token"])})
    state = {
        "cookies": [{"name": "sid", "value": cookie, "domain": "example.org"}],
        "origins": [{"origin": "https://example.org", "localStorage": [{"name": "auth", "value": held}]}],
    }
    (tmp_path / "state.json").write_text(json.dumps(state))
    (tmp_path / "policy.toml").write_text(
        '[[sites]]\nhosts = ["example.org"]\nbasis = "own"\nstorage_state = { file = "state.json" }\n'
        'headers.Authorization = { env = "PAGESTATE_TEST_TOKEN" }\n'
    )
    secrets = load_credentials(read_policy(str(tmp_path / "policy.toml")))["example.org"].secrets()
    shown = [
        "YWRhOnBhNTV3b3JkIXg=",
        "YWRhOnBhNTV3b3JkIXg%3D",
        "pa55word!x",
        "ada:pa55word!x",
        cookie,
        '{"id":"inner/t=ken!"}',
        "inner/t=ken!",
        "inner%2Ft%3Dken!",
        "inner%2Ft%3Dken%21",
        "held-token",
        "deeper token",
        "deeper%20token",
        "deeper+token",
    ]
    assert {text: masked(text, secrets) for text in shown} == dict.fromkeys(shown, "\u2022" * 8)
    assert masked("user, nested, token", secrets) == "user, nested, token"


ODD = {
    "name": "a=b",
    "value": "line\nbreak",
    "path": "relative",
    "expires": "tomorrow",
    "httpOnly": 1,
    "secure": "yes",
    "sameSite": "weird",
}


@pytest.mark.parametrize("key", ODD)
def test_a_cookie_that_no_browser_takes_is_said_before_a_page_is_lost_for_it(tmp_path, key):
    cookie = {"name": "sid", "value": "s3cret-value", "domain": "example.org", key: ODD[key]}
    (tmp_path / "c.json").write_text(json.dumps([cookie]))
    (tmp_path / "policy.toml").write_text(
        '[[sites]]\nhosts = ["example.org"]\nbasis = "own"\ncookies = { file = "c.json" }\n'
    )
    with pytest.raises(SettingError, match=f"a cookie whose {key} no browser takes") as error:
        load_credentials(read_policy(str(tmp_path / "policy.toml")))
    assert cookie["value"] not in str(error.value)


def test_a_header_stands_once_whatever_its_case(tmp_path):
    (tmp_path / "policy.toml").write_text(
        '[[sites]]\nhosts = ["example.org"]\nbasis = "own"\nheaders.X-A = { env = "A" }\nheaders.x-a = { env = "B" }\n'
    )
    with pytest.raises(SettingError, match="twice"):
        read_policy(str(tmp_path / "policy.toml"))
