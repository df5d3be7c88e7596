"""Which links are followed is decided by URL keys alone, whatever their order and wherever a process was killed."""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from scheduler.follow_rules import MAX_URL_CHARS, FollowSettings, Found, Scope, Seen, followed, trap_of
from schemas.policy import policy_from

SMALL = FollowSettings(depth=1, per_host=6, total=9, query_variants=2, digit_variants=3)


def planned_from(links, known=(), now=(), settings=SMALL):
    """What is planned of links, beside pages that other rounds have planned and those that this one has."""
    found = Found()
    seen = [Seen.link(key, None, 1) for key in links]
    seen += [Seen.page(key, 1, in_this_round=False) for key in known]
    seen += [Seen.page(key, 1, in_this_round=True) for key in now]
    random.Random(len(seen)).shuffle(seen)
    return [key for key, _ in followed(sorted(seen), settings, found)], found


@pytest.mark.parametrize(
    ("key", "trap"),
    [
        ("http://h/a/b/c", None),
        ("http://h/a/b/a/b/c", None),
        ("http://h/a/b/a/b/a/b/c", "repeating_path"),
        ("http://h/x/menu/menu/menu", "repeating_path"),
        ("http://h/x///", "repeating_path"),
        ("http://h/2026/01/01/01/", None),
        ("http://h/?path=/a/a/a/a", None),
        ("http://h/" + "a" * (MAX_URL_CHARS - 9), None),
        ("http://h/" + "a" * (MAX_URL_CHARS - 8), "too_long"),
        ("http://h/" + "/".join(map(str, range(20))), None),
        ("http://h/" + "/".join(map(str, range(21))), "too_long"),
    ],
)
def test_a_trap_is_seen_by_its_url(key, trap):
    """Paths that grow into themselves never end (pain 34)."""
    assert trap_of(key) == trap


def test_queries_of_one_path_are_so_many():
    """A filter or a session id makes endless URLs of one page (pain 34)."""
    links = [f"http://h/list?page={n}" for n in range(100)] + ["http://h/list", "http://h/other"]
    planned, found = planned_from(links)
    assert planned == ["http://h/list", "http://h/other", "http://h/list?page=0", "http://h/list?page=1"]
    assert found.refused == {"query_variants": 98}
    assert found.examples == {"query_variants": "http://h/list?page=2"}
    assert (found.links, found.known, found.planned) == (102, 0, 4)


def test_paths_that_differ_in_digits_are_so_many():
    """A calendar has a page for every day for ever (pain 34)."""
    links = [f"http://h/calendar/{year}/{month}" for year in range(1990, 2090) for month in range(1, 13)]
    planned, found = planned_from([*links, "http://h/about"])
    assert len(planned) == 4
    assert found.refused == {"digit_variants": 1197}
    # what earlier rounds brought counts too: a calendar does not go on with the next round
    again, found = planned_from(links, known=planned)
    assert (again, found.known, found.refused) == ([], 3, {"digit_variants": 1197})


def test_a_host_and_a_crawl_take_so_many_and_hosts_take_turns():
    planned, found = planned_from([f"http://{host}/{chr(97 + n)}" for host in ("a", "b", "c") for n in range(8)])
    assert planned == [f"http://{host}/{path}" for path in "abc" for host in ("a", "b", "c")]
    assert found.refused == {"host_budget": 6, "total_budget": 9}
    assert planned_from(["http://d/1"], known=planned)[0] == []


def test_the_places_of_a_page_of_the_seeds_are_nobody_s():
    found = Found()
    seen = [Seen.page(f"http://h/{n}", 0, in_this_round=False) for n in range(50)]
    links = [Seen.link(f"http://h/{n}", None, 1) for n in range(48, 52)]
    assert list(followed(sorted([*seen, *links]), SMALL, found)) == [("http://h/50", 1), ("http://h/51", 1)]
    assert (found.links, found.known) == (4, 2)


def test_the_shortest_way_counts_and_one_open_link_is_enough():
    found = Found()
    seen = [Seen.link("http://h/a", None, 3), Seen.link("http://h/a", "nofollow", 1), Seen.link("http://h/a", None, 2)]
    seen += [Seen.link("http://h/b", "nofollow", 1)]
    assert list(followed(sorted(seen), SMALL, found)) == [("http://h/a", 2)]
    assert found.refused == {"nofollow": 1}


KEYS = st.builds(
    lambda host, path, query: f"http://{host}/{path}{query}",
    st.sampled_from(["a", "b", "c:8080"]),
    st.sampled_from(["", "x", "y1", "y22", "y333", "y4", "z/1", "z/2", "w"]),
    st.sampled_from(["", "", "?1", "?2", "?3", "?a=b"]),
)


@hypothesis_settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(KEYS, max_size=60), st.lists(KEYS, max_size=8), st.randoms(use_true_random=False))
def test_a_plan_that_was_cut_off_is_finished_to_the_same(links, known, chance):
    """Wherever a scheduler is killed that stores a plan, the next one adds just what is lacking."""
    planned, found = planned_from(links, known)
    part = [key for key in planned if chance.random() < 0.5]
    rest, again = planned_from(links, known, now=part)
    assert sorted([*part, *rest]) == sorted(planned)
    assert again == found
    assert found.links == len(set(links)) == found.known + found.planned + sum(found.refused.values())


def test_large_numbers_of_refused_links_are_counted_and_not_kept():
    links = [f"http://h/{'x' * (n % 7)}{n}" for n in range(20_000)]
    planned, found = planned_from(links)
    assert len(planned) == 6
    assert sum(found.refused.values()) == 20_000 - 6


def test_scope_is_the_hosts_of_the_seeds_or_their_sites():
    """Elsewhere nothing is fetched, however it is linked (pain 34)."""
    own = Scope.of(["www.example.org", "h:8080"], "host", policy_from(b"", {"others": "allow"}, None))  # type: ignore[arg-type]
    assert own.refusal("https://www.example.org/a") is None
    assert own.refusal("http://h:8080/a") is None
    assert own.refusal("http://h/a") == "out_of_scope"
    assert own.refusal("http://example.org/a") == "out_of_scope"
    wide = Scope.of(["www.example.co.uk", "127.0.0.1:80"], "site", own.policy)
    assert wide.refusal("http://shop.example.co.uk:81/a") is None
    assert wide.refusal("http://other.co.uk/") == "out_of_scope"
    assert wide.refusal("http://127.0.0.2/") == "out_of_scope"


def test_a_link_that_the_policy_refuses_is_not_planned():
    sites = [{"hosts": ["www.example.org"], "basis": "ours"}]
    strict = policy_from(b"", {"sites": sites}, None)  # type: ignore[arg-type]  # it has no files
    scope = Scope.of(["www.example.org", "shop.example.org"], "host", strict)
    assert scope.refusal("http://www.example.org/a") is None
    assert scope.refusal("http://shop.example.org/a") == "policy"
