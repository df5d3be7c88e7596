"""Rights signals, as headers and metas say them."""

from __future__ import annotations

import pytest

from workers.serialize.rights import PageSignals, signal_columns

NOTHING = {
    "x_robots_tag": [],
    "meta_robots": [],
    "robots_directives": [],
    "tdm_reservation": None,
    "tdm_policy": None,
    "content_signal": None,
    "licence_links": [],
}


def columns(headers=None, metas=(), licences=(), content_signal=None):
    signals = PageSignals(tuple(metas), tuple(licences))
    return signal_columns(headers or {}, signals, "https://a.test/dir/page", content_signal, "pagestate")


def test_a_page_that_says_nothing():
    assert columns() == NOTHING


@pytest.mark.parametrize(
    ("header", "directives"),
    [
        ("noindex, NoAI", ["noai", "noindex"]),
        ("googlebot: noindex", []),
        ("pagestate: noimageai\nnofollow", ["nofollow", "noimageai"]),
        ("unavailable_after: 25 Jun 2010 15:00:00 PST", ["unavailable_after: 25 jun 2010 15:00:00 pst"]),
        ("noai, max-snippet: 20", ["max-snippet: 20", "noai"]),
        ("", []),
    ],
)
def test_whom_a_header_is_for(header, directives):
    made = columns({"x-robots-tag": header})
    assert made["robots_directives"] == directives
    assert made["x_robots_tag"] == [line for line in header.split("\n") if line]


def test_metas_count_for_us_or_everybody_and_are_all_kept():
    made = columns(metas=[("robots", "NOAI , noimageai"), ("googlebot", "noindex"), ("pagestate", "noarchive")])
    assert made["meta_robots"] == ["robots: NOAI , noimageai", "googlebot: noindex", "pagestate: noarchive"]
    assert made["robots_directives"] == ["noai", "noarchive", "noimageai"]


def test_a_header_counts_before_a_meta_and_the_first_meta_before_the_second():
    metas = [("tdm-reservation", "0"), ("tdm-reservation", "1"), ("tdm-policy", "https://a.test/m")]
    made = columns({"tdm-reservation": "1"}, metas, content_signal="ai-train=no")
    assert (made["tdm_reservation"], made["tdm_policy"]) == ("1", "https://a.test/m")
    assert columns({}, metas)["tdm_reservation"] == "0"
    assert made["content_signal"] == "ai-train=no"
    assert made["meta_robots"] == []
    assert columns({"content-signal": "search=yes"}, content_signal="x")["content_signal"] == "search=yes"


def test_licence_links_are_absolute_and_stand_once():
    link = '<https://l.test/by>; rel="license", </next>; rel=next, <../cc0>; title="a, b"; rel="x LICENSE"'
    made = columns({"link": link}, licences=["https://l.test/by", "//me:secret@l.test/z", "http://[bad"])
    assert made["licence_links"] == ["https://l.test/by", "https://a.test/cc0", "https://l.test/z"]


def test_a_flood_is_bounded():
    made = columns(
        {"x-robots-tag": "\n".join(f"d{n}" for n in range(1000)), "link": "<" * 200_000},
        [("robots", ",".join(f"m{n}" for n in range(1000)))],
        [f"/{n}" for n in range(1000)],
    )
    assert {len(value) for value in made.values() if isinstance(value, list)} <= {1, 50}
