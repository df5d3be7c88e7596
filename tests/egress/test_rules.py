"""Which addresses are closed: IPv4, IPv6, and IPv4 in its IPv6 disguises."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.policy import Policy
from schemas.settings import RunSettings
from workers.egress.rules import METADATA, EgressRules, kind_of, plain

KINDS = {
    "8.8.8.8": "",
    "2606:4700::1111": "",
    "127.0.0.1": "loopback",
    "127.255.255.254": "loopback",
    "::1": "loopback",
    "::ffff:127.0.0.1": "loopback",
    "::127.0.0.1": "loopback",
    "0.0.0.0": "unspecified",
    "::": "unspecified",
    "::ffff:0.0.0.0": "unspecified",
    "0.1.2.3": "private",
    "10.1.2.3": "private",
    "172.16.0.1": "private",
    "192.168.1.1": "private",
    "::ffff:c0a8:101": "private",
    "64:ff9b::10.0.0.1": "private",
    "64:ff9b:1::10.0.0.1": "private",
    "2002:0a00:0001::1": "private",
    "2002:7f00:0001::": "loopback",
    "100.64.0.1": "private",
    "198.18.0.1": "private",
    "192.0.2.1": "private",
    "fc00::1": "private",
    "fd12:3456::1": "private",
    "2001:db8::1": "private",
    "169.254.1.1": "link-local",
    "fe80::1": "link-local",
    "169.254.169.254": "metadata",
    "::ffff:169.254.169.254": "metadata",
    "64:ff9b::a9fe:a9fe": "metadata",
    "fd00:ec2::254": "metadata",
    "168.63.129.16": "metadata",
    "100.100.100.200": "metadata",
    "224.0.0.1": "multicast",
    "239.255.255.250": "multicast",
    "ff02::1": "multicast",
    "240.0.0.1": "reserved",
    "255.255.255.255": "reserved",
    "fec0::1": "reserved",
    "2001:0:7f00:1::": "reserved",
    "64:ff9b::8.8.8.8": "",
}


@pytest.mark.parametrize("text", KINDS)
def test_what_an_address_is(text):
    assert kind_of(plain(ipaddress.ip_address(text))) == KINDS[text]


def refusal(rules: EgressRules, text: str, port: int = 80, own=(), own_ports=()) -> str:
    return rules.refusal(ipaddress.ip_address(text), port, set(map(ipaddress.ip_address, own)), set(own_ports))


@given(st.ip_addresses())
def test_nothing_but_the_public_internet_is_open_by_default(address):
    closed = EgressRules().refusal(address, 443, (), ())
    assert bool(closed) == bool(kind_of(plain(address)))
    if not closed:
        assert plain(address).is_global


def test_allow_private_opens_what_is_somebodys_and_nothing_else():
    rules = EgressRules.of(RunSettings(allow_private=True))
    opened = {text for text, kind in KINDS.items() if kind and not refusal(rules, text)}
    assert {KINDS[text] for text in opened} == {"loopback", "private", "link-local", "unspecified"}
    assert {KINDS[text] for text in KINDS.keys() - opened} == {"", "metadata", "multicast", "reserved"}
    assert all(refusal(rules, str(address)) == "is metadata" for address in METADATA)


def test_the_policy_opens_and_closes_single_networks_and_closing_wins():
    policy = Policy(allow=("10.0.0.0/8", "169.254.169.254/32"), deny=("10.9.0.0/16", "8.8.8.0/24"))
    rules = EgressRules.of(RunSettings(policy=policy))
    told = {text: refusal(rules, text) for text in ("10.1.1.1", "::ffff:10.1.1.1", "169.254.169.254", "1.1.1.1")}
    assert set(told.values()) == {""}
    for text in ("10.9.1.1", "::ffff:10.9.1.1", "8.8.8.8"):
        assert refusal(rules, text) == "is closed by the policy"
    assert refusal(rules, "127.0.0.1") == "is loopback"


@pytest.mark.parametrize("text", ["127.0.0.1", "127.9.9.9", "::1", "0.0.0.0", "::ffff:127.0.0.1", "192.168.7.7"])
def test_ports_of_this_machine_stay_closed_by_whatever_name(text):
    """Even for who may reach private addresses (pain 56)."""
    rules = EgressRules(allow_private=True, allow=(ipaddress.ip_network("0.0.0.0/0"),), closed_ports=frozenset({6379}))
    own = ["192.168.7.7"]
    assert "port 6379 of this machine is closed" in refusal(rules, text, 6379, own)
    assert "port 9222 of this machine is closed" in refusal(rules, text, 9222, own, [9222])
    assert refusal(rules, text, 80, own) == ""
    assert refusal(rules, "192.168.7.8", 6379, own) == ""
