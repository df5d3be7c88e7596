"""A URL key is canonical: asking twice changes nothing, and no secret is left in it."""

from __future__ import annotations

import ada_url
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.urls import NotAWebUrl, host_of, hostname_of, is_loopback, site_of, url_key, without_userinfo

URLS = st.builds(
    "{}://{}{}{}{}{}{}".format,
    st.sampled_from(["http", "https", "HTTP"]),
    st.sampled_from(["", "user@", "user:secret@", ":secret@"]),
    st.sampled_from(["example.org", "EXAMPLE.org.", "münchen.de", "127.0.0.1", "0x7f.1", "[::1]", "a_b.org"]),
    st.sampled_from(["", ":80", ":443", ":8080"]),
    st.text(max_size=20).map(lambda text: "/" + text),
    st.text(max_size=10).map(lambda text: "?" + text if text else ""),
    st.text(max_size=10).map(lambda text: "#" + text if text else ""),
)


@pytest.mark.parametrize(
    ("given_url", "key"),
    [
        ("http://Example.ORG", "http://example.org/"),
        ("http://example.org:80/#top", "http://example.org/"),
        ("https://example.org:443/a/../b", "https://example.org/b"),
        ("https://example.org:80/", "https://example.org:80/"),
        ("http://u:p@example.org/?b=2&a=1", "http://example.org/?b=2&a=1"),
        (" http://example.org/a b\t", "http://example.org/a%20b"),
        ("http://münchen.de/ä?ö", "http://xn--mnchen-3ya.de/%C3%A4?%C3%B6"),
        ("http://example.org/?", "http://example.org/?"),
        ("http://example.org/a%23b#c#d", "http://example.org/a%23b"),
        ("http://0x7f.1/", "http://127.0.0.1/"),
        ("http:example.org", "http://example.org/"),
    ],
)
def test_keys_follow_the_whatwg_rules(given_url, key):
    """Forms of one URL have one key, and the query stays as it is (pain 35)."""
    assert url_key(given_url) == key


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not an absolute URL"),
        ("/a", "not an absolute URL"),
        ("example.org", "not an absolute URL"),
        ("mailto:a@b.org", "scheme is mailto"),
        ("ftp://a.org", "scheme is ftp"),
        ("javascript:alert(1)", "scheme is javascript"),
        ("http://", "not an absolute URL"),
        ("http://a b/", "not an absolute URL"),
        ("http://\ud800/", "not an absolute URL"),
    ],
)
def test_what_is_no_web_url_says_why(text, reason):
    with pytest.raises(NotAWebUrl, match=reason):
        url_key(text)


@given(URLS)
def test_a_key_is_its_own_key_and_holds_neither_fragment_nor_secret(url):
    try:
        key = url_key(url)
    except NotAWebUrl:
        return
    assert url_key(key) == key
    assert "#" not in key
    assert "secret@" not in key
    assert url_key(without_userinfo(url)) == key
    assert host_of(key) == ada_url.URL(key).host


@given(st.text(st.characters(codec=None)))
def test_any_text_has_a_key_or_a_reason(text):
    try:
        found = url_key(text)
    except NotAWebUrl as refusal:
        found = f"http:// {refusal}"
    assert found.startswith(("http://", "https://"))


@pytest.mark.parametrize(
    ("key", "host", "name", "site", "loopback"),
    [
        ("http://www.example.co.uk:8080/", "www.example.co.uk:8080", "www.example.co.uk", "example.co.uk", False),
        ("http://[::1]:81/", "[::1]:81", "::1", "::1", True),
        ("http://127.8.9.1/", "127.8.9.1", "127.8.9.1", "127.8.9.1", True),
        ("http://localhost/", "localhost", "localhost", "localhost", True),
        ("http://a.localhost./", "a.localhost.", "a.localhost.", "a.localhost", True),
        ("http://10.0.0.1/", "10.0.0.1", "10.0.0.1", "10.0.0.1", False),
        ("http://notlocalhost/", "notlocalhost", "notlocalhost", "notlocalhost", False),
    ],
)
def test_host_name_and_site_of_a_key(key, host, name, site, loopback):
    assert (host_of(key), hostname_of(key), site_of(key), is_loopback(key)) == (host, name, site, loopback)
