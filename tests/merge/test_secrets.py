"""No secret value leaves mask_secrets, and nothing else changes."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

import pytest

from schemas.capture import Capture, Payload
from workers.merge import mask_secrets, merge
from workers.merge.search import contains, matches
from workers.merge.secret_document import MASK
from workers.merge.secret_snapshot import may_hold_secret
from workers.serialize.eval_listing import serialize_eval_listing
from workers.serialize.listing import serialize_listing

DATA = Path(__file__).parents[1] / "data" / "browser_use"
SECRET = "hunter2-secret"


def everything(capture: Capture) -> bytes:
    return b"\n".join(bytes(p.data) for p in capture.payloads)


def field(pages: ModuleType, attributes: dict[str, str], name: str = "INPUT") -> object:
    """A field as Chromium shows it: value attribute, live value, and the text in its own shadow root."""
    inner = pages.Node("DIV", children=[pages.text(SECRET, role="StaticText", ax_name=SECRET, box=None)], box=None)
    root = pages.Node("#document-fragment", kind=11, shadow_type="user-agent", children=[inner], box=None)
    return pages.Node(
        name, {**attributes, "value": SECRET}, live_value=SECRET, role="textbox", ax_name="Name", shadow=[root]
    )


@pytest.mark.parametrize(
    "attributes",
    [
        {"type": "password"},
        {"type": "PassWord"},
        {"autocomplete": "cc-number"},
        {"autocomplete": "section-a billing CC-CSC"},
        {"autocomplete": "one-time-code"},
        {"type": "text", "autocomplete": "current-password"},
    ],
)
def test_secret_values_are_masked_everywhere(pages: ModuleType, attributes: dict[str, str]) -> None:
    # Given a field with a secret, and a paragraph that tells the same word
    capture = pages.capture(pages.document(field(pages, attributes)))
    # When it is masked
    masked, count = mask_secrets(capture)
    # Then no payload holds it, not even a string table, and the tree shows the mask
    assert count == 1
    assert SECRET.encode() not in everything(masked)
    tree = merge(masked)
    assert tree.attributes(3)["value"] == MASK
    assert tree.ax_name(3) == "Name"
    # and masking again finds nothing more
    assert mask_secrets(masked) == (masked, 0)


def test_other_text_that_shares_the_string_stays(pages: ModuleType) -> None:
    shown = pages.Node("P", children=[pages.text(SECRET)])
    capture = pages.capture(pages.document(field(pages, {"type": "password"}), shown))
    masked, count = mask_secrets(capture)
    tree = merge(masked)
    assert count == 1
    assert SECRET in tree.values
    assert SECRET in serialize_listing(tree).text
    assert f'value="{MASK}"' in serialize_eval_listing(tree)


@pytest.mark.parametrize(
    "node",
    [
        ("INPUT", {"type": "text", "autocomplete": "email", "value": "cc-1"}),
        ("INPUT", {"type": "password"}),
        ("INPUT", {"type": "password", "value": ""}),
        ("DIV", {"type": "password", "value": "v"}),
    ],
)
def test_pages_without_secrets_are_passed_on_untouched(pages: ModuleType, node: tuple[str, dict[str, str]]) -> None:
    capture = pages.capture(pages.document(pages.Node(*node)))
    assert mask_secrets(capture) == (capture, 0)
    assert mask_secrets(capture)[0] is capture


def test_untouched_payloads_keep_their_buffers(pages: ModuleType) -> None:
    capture = pages.capture(pages.document(field(pages, {"type": "password"})))
    views = Capture(tuple(Payload(p.kind, memoryview(p.data), p.target) for p in capture.payloads))
    masked, _ = mask_secrets(views)
    changed = {p.kind for p, q in zip(views.payloads, masked.payloads, strict=True) if p.data is not q.data}
    assert changed == {"layout_snapshot", "dom_document", "ax_tree"}


def test_hydrated_fields_are_masked(pages: ModuleType) -> None:
    form = pages.Node("FORM", children=[field(pages, {"type": "password"})], cut=True)
    capture = pages.capture(pages.document(form))
    capture = Capture((*capture.payloads, pages.subtree(form)))
    masked, count = mask_secrets(capture)
    assert count == 1
    assert SECRET.encode() not in everything(masked)
    assert merge(masked).attributes(4)["value"] == MASK


def test_a_recorded_form_is_masked(recording: ModuleType) -> None:
    capture, _ = recording.load("forms.html", DATA)
    masked, count = mask_secrets(capture)
    assert count == 4
    for secret in (b"hunter2", b"4111111111111111", b"998877"):
        assert secret in everything(capture)
        assert secret not in everything(masked)


def test_a_recorded_page_prints_the_same_but_for_the_masks(recording: ModuleType) -> None:
    capture, said = recording.load("forms.html", DATA)
    tree = merge(mask_secrets(capture)[0])
    expected = said["llm_representation"].replace("4111111111111111", MASK).replace("998877", MASK)
    assert serialize_listing(tree).text == expected
    told = said["eval_representation"].replace("4111111111111111", MASK).replace("998877", MASK)
    assert serialize_eval_listing(tree) == told.replace("hunter2", MASK)


@pytest.mark.parametrize("size", [10, 2**20 - 7, 2**20, 2**21 + 3])
def test_texts_are_found_across_the_pieces_of_a_memory_view(size: int) -> None:
    data = memoryview(b"x" * size + b'"type","PASSWORD"' + b"x" * size)
    assert contains(data, b'"type"')
    assert matches(data, b'"type"', re.compile(rb'"type",\s?"(?i:password)"'))
    assert not contains(data, b"typo", b"PASSWORT")
    assert not contains(memoryview(b""), b"x")


def test_a_page_that_talks_about_passwords_holds_none(pages: ModuleType) -> None:
    talk = pages.Node("INPUT", {"type": "text", "name": "password"}, [pages.text("password")], live_value="seen")
    field = pages.Node("INPUT", {"type": "Password"}, live_value="hidden")
    assert [may_hold_secret(snapshot_of(pages, *nodes)) for nodes in ((talk,), (talk, field))] == [False, True]


def snapshot_of(pages: ModuleType, *nodes: object) -> Payload:
    snapshot: Payload = next(pages.capture(pages.document(*nodes)).of("layout_snapshot"))
    return snapshot
