"""No secret value leaves mask_secrets, and nothing else changes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from schemas.capture import Capture, Payload
from workers.merge import mask_secrets, merge
from workers.merge.search import contains, matches
from workers.merge.secret_snapshot import may_hold_secret
from workers.merge.secret_texts import MASK, SecretTexts
from workers.serialize.eval_listing import serialize_eval_listing
from workers.serialize.listing import serialize_listing
from workers.store import FolderStore, latest_listings, load_capture

DATA = Path(__file__).parents[1] / "data" / "browser_use"
SECRET = "hunter2-secret"


def everything(capture: Capture) -> bytes:
    return b"\n".join(bytes(p.data) for p in capture.payloads)


def field(pages: ModuleType, attributes: dict[str, str], name: str = "INPUT") -> Any:
    """A field as Chromium shows it: value attribute, live value, and the text in its own shadow root."""
    inner = pages.Node("DIV", children=[pages.text(SECRET, role="StaticText", ax_name=SECRET, box=None)], box=None)
    root = pages.Node("#document-fragment", kind=11, shadow_type="user-agent", children=[inner], box=None)
    return pages.Node(
        name, {**attributes, "value": SECRET}, live_value=SECRET, role="textbox", ax_name="Name", shadow=[root]
    )


@pytest.mark.parametrize("name", ["INPUT", "h:input"])
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
def test_secret_values_are_masked_everywhere(pages: ModuleType, attributes: dict[str, str], name: str) -> None:
    # Given a field with a secret, in HTML or with the prefix that an XHTML page may give it
    capture = pages.capture(pages.document(field(pages, attributes, name)))
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


def test_what_is_inside_a_field_is_masked_in_a_reply_of_its_own(pages: ModuleType) -> None:
    """A document is asked for in parts, and a part may begin anywhere."""
    node = field(pages, {"type": "password"})
    inner = node.shadow[0].children[0]
    option = pages.Node("OPTION", {"selected": ""}, [pages.text("Twelve")])
    group = pages.Node("OPTGROUP", {}, [option], cut=True)
    select = pages.Node("SELECT", {"autocomplete": "cc-exp-month"}, [group])
    inner.cut = True
    capture = pages.capture(pages.document(node, select))
    capture = Capture((*capture.payloads, pages.subtree(inner), pages.subtree(group)))
    masked, count = mask_secrets(capture)
    assert count == 2
    assert SECRET.encode() not in everything(masked)
    assert [b'"selected"' in p.data for p in masked.of("dom_subtree")] == [False, False]
    assert mask_secrets(masked) == (masked, 0)


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


def edited(capture: Capture, kind: str, edit: Any) -> Capture:
    """The capture with one kind of payload changed by a function of its decoded JSON."""

    def change(payload: Payload) -> Payload:
        value = json.loads(payload.data)
        edit(value)
        return replace(payload, data=json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode())

    return Capture(tuple(change(p) if p.kind == kind else p for p in capture.payloads))


def decoded(capture: Capture, kind: str) -> Any:
    return json.loads(next(p.data for p in capture.payloads if p.kind == kind))


def ax_node(capture: Capture, backend_node_id: int) -> Any:
    return next(n for n in decoded(capture, "ax_tree")["nodes"] if n["backendDOMNodeId"] == backend_node_id)


def test_names_that_repeat_a_value_are_masked(pages: ModuleType) -> None:
    # Given a button around the field, and one elsewhere that the field describes, as Chromium computes it
    around = pages.Node("BUTTON", children=[field(pages, {"autocomplete": "cc-name"})], role="button")
    around.ax_name = f"Pay as  {SECRET.upper()}  now"
    other = pages.Node("BUTTON", role="button", ax_name="Other")
    capture = pages.capture(pages.document(around, other))

    def describe(tree: Any) -> None:
        for node in tree["nodes"]:
            if node["backendDOMNodeId"] == other.backend_node_id:
                related = {"type": "nodeList", "relatedNodes": [{"backendDOMNodeId": 4, "text": f"x {SECRET}"}]}
                node["description"] = {"type": "computedString", "value": SECRET}
                node["name"]["sources"] = [{"type": "relatedElement", "nativeSourceValue": related}]
                node["properties"] = [{"name": "describedby", "value": related}]

    # When it is masked
    masked, count = mask_secrets(edited(capture, "ax_tree", describe))
    # Then no node says it, in whatever case and however spaced
    assert count == 1
    assert SECRET not in everything(masked).decode().lower()
    assert ax_node(masked, around.backend_node_id)["name"]["value"] == f"Pay as {MASK} now"
    assert ax_node(masked, other.backend_node_id)["description"]["value"] == MASK
    assert ax_node(masked, other.backend_node_id)["properties"][0]["value"]["relatedNodes"][0]["text"] == f"x {MASK}"
    assert mask_secrets(masked) == (masked, 0)


def test_short_values_are_masked_near_the_field_only(pages: ModuleType) -> None:
    short = pages.Node("INPUT", {"autocomplete": "cc-csc", "value": "7"}, live_value="7", role="textbox", ax_name="")
    around = pages.Node("BUTTON", children=[short], role="button", ax_name="code 7 of 77")
    far = pages.Node("BUTTON", role="button", ax_name="7 days")
    masked, _ = mask_secrets(pages.capture(pages.document(around, far)))
    assert ax_node(masked, around.backend_node_id)["name"]["value"] == f"code {MASK} of 77"
    assert ax_node(masked, far.backend_node_id)["name"]["value"] == "7 days"


def test_parents_in_a_cycle_above_a_field_are_walked_once(pages: ModuleType) -> None:
    short = pages.Node("INPUT", {"autocomplete": "cc-csc", "value": "7"}, live_value="7", role="textbox", ax_name="")
    around = pages.Node("BUTTON", children=[short], role="button", ax_name="code 7 of 77")

    def turn(tree: Any) -> None:
        ids = [str(around.backend_node_id), str(short.backend_node_id)]
        for node in tree["nodes"]:
            node["parentId"] = ids[ids.index(node["nodeId"]) - 1]

    masked, _ = mask_secrets(edited(pages.capture(pages.document(around)), "ax_tree", turn))
    assert ax_node(masked, around.backend_node_id)["name"]["value"] == f"code {MASK} of 77"


REPEATING = (
    "data-first", "id", "name", "class", "pattern", "style", "form", "list", "role", "lang", "dir", "inputmode",
    "enterkeyhint", "placeholder", "max", "maxlength", "tabindex", "cols",
)  # fmt: skip
SAID = {
    "aria-valuetext": (SECRET, MASK),
    "aria-valuenow": ("3", MASK),
    "title": ("Your code", "Your code"),
    **dict.fromkeys(REPEATING, (f"v-{SECRET}", f"v-{MASK}")),
    "autocomplete": (f"section-{SECRET} Cc-Csc cc-{SECRET}", f"section-{MASK} Cc-Csc cc-{MASK}"),
}
"""Attributes of a field: what the page writes, and what becomes of it."""


def test_every_attribute_of_the_field_that_says_its_value_is_masked(pages: ModuleType) -> None:
    node = field(pages, {"type": f"of {SECRET}", **{name: said for name, (said, _) in SAID.items()}})
    masked, count = mask_secrets(pages.capture(pages.document(node)))
    assert count == 1
    becomes = {name: becomes for name, (_, becomes) in SAID.items()}
    assert merge(masked).attributes(3) == {"type": f"of {MASK}", **becomes, "value": MASK}
    assert SECRET.encode() not in everything(masked)
    assert mask_secrets(masked) == (masked, 0)


@pytest.mark.parametrize(
    "attributes",
    [{"type": "password", "value": "password"}, {"autocomplete": "billing cc-number", "value": "cc-number"}],
)
def test_a_value_that_says_what_the_field_is_leaves_it_a_secret_field(
    pages: ModuleType, attributes: dict[str, str]
) -> None:
    masked, _ = mask_secrets(pages.capture(pages.document(pages.Node("INPUT", attributes))))
    assert merge(masked).attributes(3) == {**attributes, "value": MASK}


def test_the_id_of_a_field_that_says_its_value_is_masked_where_the_tree_refers_to_it(pages: ModuleType) -> None:
    capture = pages.capture(pages.document(field(pages, {"type": "password", "id": SECRET})))

    def refer(tree: Any) -> None:
        related = {"type": "idrefList", "value": SECRET, "relatedNodes": [{"backendDOMNodeId": 4, "idref": SECRET}]}
        tree["nodes"][0]["properties"] = [{"name": "labelledby", "value": related}]

    masked, _ = mask_secrets(edited(capture, "ax_tree", refer))
    assert SECRET.encode() not in everything(masked)


@pytest.mark.parametrize(("limit", "becomes"), [("3", "3"), ("2027", MASK)])
def test_a_short_limit_is_no_value(pages: ModuleType, limit: str, becomes: str) -> None:
    node = pages.Node("INPUT", {"autocomplete": "cc-csc", "maxlength": limit, "class": f"w {limit}", "value": limit})
    masked, _ = mask_secrets(pages.capture(pages.document(node)))
    said = merge(masked).attributes(3)
    assert (said["maxlength"], said["class"], said["value"]) == (becomes, f"w {MASK}", MASK)


def test_a_placeholder_that_says_the_value_is_masked_in_its_copy_too(pages: ModuleType) -> None:
    # Given a field whose placeholder is its value, and an option that poses as a placeholder
    node = field(pages, {"type": "password", "placeholder": SECRET})
    word = pages.Node("DIV", {"pseudo": "-webkit-input-placeholder"}, [pages.text(SECRET)], box=None)
    node.shadow[0].children.append(word)
    posing = pages.Node("OPTION", {"pseudo": "placeholder", "selected": ""}, [pages.text("Twelve")])
    select = pages.Node("SELECT", {"autocomplete": "cc-exp-month"}, [posing])
    masked, count = mask_secrets(pages.capture(pages.document(node, select)))
    assert count == 2
    assert SECRET.encode() not in everything(masked)
    assert b'"selected"' not in next(masked.of("dom_document")).data


def test_the_frames_and_selects_of_an_xhtml_page_are_masked(pages: ModuleType) -> None:
    frame = pages.Node("h:iframe", {"srcdoc": f"<input type=password value={SECRET}>"})
    option = pages.Node("h:option", {"selected": ""}, [pages.text("Twelve")])
    copy = pages.Node("h:selectedcontent", {}, [pages.text("Twelve")])
    select = pages.Node("h:select", {"autocomplete": "cc-exp-month"}, [copy, option])
    area = pages.Node("h:textarea", {"autocomplete": "cc-name"}, [pages.text(SECRET)])
    masked, count = mask_secrets(pages.capture(pages.document(frame, select, area)))
    tree = merge(masked)
    assert count == 3
    assert SECRET.encode() not in everything(masked)
    assert tree.attributes(frame.backend_node_id - 1) == {"srcdoc": MASK}
    assert tree.attributes(option.backend_node_id - 1) == {}
    assert everything(masked).count(b"Twelve") == 2  # the option's own text in the document, and in the snapshot


@pytest.mark.parametrize(
    ("source", "becomes"),
    [
        (f"<p>Hi</p><input type=password value={SECRET}>", MASK),
        (f"<INPUT autocomplete='off CC-NUMBER' value='{SECRET}'>", MASK),
        (f"<input type=&#112;assword value={SECRET}>", MASK),
        (f"<textarea autocomplete=one-time-code>{SECRET}</textarea>", MASK),
        (f"<iframe srcdoc='&lt;input type=password value={SECRET}&gt;'></iframe>", MASK),
        ("<select autocomplete=cc-exp-month><option selected>1</select>", MASK),
        ("<input type=password>", None),
        ("<p>Forgot your password?</p><input value=v>", None),
        ("<textarea autocomplete=cc-name></textarea>", None),
    ],
)
def test_the_source_of_a_frame_is_masked_if_it_holds_a_value(
    pages: ModuleType, source: str, becomes: str | None
) -> None:
    # Given a frame whose document is not there: Chromium gives a sandboxed one a process of its own
    capture = pages.capture(pages.document(pages.Node("IFRAME", {"srcdoc": source})))
    masked, count = mask_secrets(capture)
    assert count == (becomes is not None)
    assert merge(masked).attributes(3)["srcdoc"] == (becomes or source)
    assert (SECRET.encode() in everything(masked)) is False
    assert mask_secrets(masked) == (masked, 0)
    assert becomes or masked is capture


def test_the_source_of_a_frame_that_repeats_a_value_is_masked(pages: ModuleType) -> None:
    frame = pages.Node("IFRAME", {"srcdoc": f"<p>Hello {SECRET}</p>"})
    masked, count = mask_secrets(pages.capture(pages.document(field(pages, {"type": "password"}), frame)))
    assert count == 2
    assert merge(masked).attributes(frame.backend_node_id - 1)["srcdoc"] == f"<p>Hello {MASK}</p>"


def test_the_choice_of_a_select_is_masked_and_its_options_stay(pages: ModuleType) -> None:
    # Given a select that shows its second option, as Chromium does it
    shown = pages.Node("DIV", children=[pages.text("Twelve", box=None)], box=None)
    options = [
        pages.Node("OPTION", {}, [pages.text("Eleven")], role="option", ax_name="Eleven"),
        pages.Node(
            "OPTION",
            {"selected": ""},
            [pages.text("Twelve")],
            role="option",
            ax_name="Twelve",
            styles={"background-color": "rgb(206, 206, 206)"},
        ),
    ]
    # Chromium hangs the options below a slot of the shadow root in the accessibility tree, and nowhere else
    slot = pages.Node("SLOT", {"id": "select-options"}, role="none", box=None)
    popup = pages.Node("DIV", {"popover": "auto"}, [slot], role="MenuListPopup", box=None)
    root = pages.Node("#document-fragment", kind=11, shadow_type="user-agent", children=[shown, popup], box=None)
    select = pages.Node("SELECT", {"autocomplete": "cc-exp-month"}, options, role="combobox", shadow=[root])
    label = pages.Node("BUTTON", children=[select], role="button", ax_name="On Twelve or later")
    capture = pages.capture(pages.document(label, pages.text("Twelve apostles", role="StaticText")))
    ids = [option.backend_node_id for option in options]

    def choose(tree: Any) -> None:
        for node in tree["nodes"]:
            if node["backendDOMNodeId"] == select.backend_node_id:
                node["value"] = {"type": "string", "value": "Twelve"}
                node["childIds"] = [str(popup.backend_node_id)]
                active = {"type": "idref", "relatedNodes": [{"backendDOMNodeId": ids[1]}]}
                node["properties"] = [{"name": "activedescendant", "value": active}]
            if node["backendDOMNodeId"] == popup.backend_node_id:
                node["childIds"] = [str(slot.backend_node_id)]
            if node["backendDOMNodeId"] == slot.backend_node_id:
                node["childIds"] = [str(i) for i in ids]
            if node["backendDOMNodeId"] in ids:
                value = {"type": "booleanOrUndefined", "value": node["backendDOMNodeId"] == ids[1]}
                node["properties"] = [{"name": "selected", "value": value}]

    def mark(snapshot: Any) -> None:
        nodes = snapshot["documents"][0]["nodes"]
        nodes["optionSelected"] = {"index": [nodes["backendNodeId"].index(ids[1])]}

    capture = edited(edited(capture, "ax_tree", choose), "layout_snapshot", mark)
    # When it is masked
    masked, count = mask_secrets(capture)
    # Then the options are told apart by nothing but their texts
    assert count == 1
    tree = merge(masked)
    assert [tree.attributes(list(tree.backend_node_id).index(i)) for i in ids] == [{}, {}]
    assert [ax_node(masked, i)["name"]["value"] for i in ids] == ["Eleven", "Twelve"]
    assert [ax_node(masked, i)["properties"][0]["value"]["value"] for i in ids] == [False, False]
    assert ax_node(masked, select.backend_node_id)["value"]["value"] == MASK
    assert ax_node(masked, select.backend_node_id)["properties"] == []
    assert ax_node(masked, label.backend_node_id)["name"]["value"] == f"On {MASK} or later"
    body = decoded(masked, "layout_snapshot")["documents"][0]
    assert body["nodes"]["optionSelected"] == {"index": []}
    nodes = [body["nodes"]["backendNodeId"].index(i) for i in ids]
    first, second = (body["layout"]["styles"][body["layout"]["nodeIndex"].index(i)] for i in nodes)
    assert first == second
    assert everything(masked).count(b"Twelve") == everything(capture).count(b"Twelve") - 3
    assert mask_secrets(masked) == (masked, 0)


def drawn(capture: Capture, *backend_node_ids: int) -> list[dict[str, Any]]:
    """The rectangles and the text boxes of some nodes."""
    body = decoded(capture, "layout_snapshot")["documents"][0]
    layout, boxes = body["layout"], body["textBoxes"]
    found = []
    for one in backend_node_ids:
        row = layout["nodeIndex"].index(body["nodes"]["backendNodeId"].index(one))
        own = [i for i, of in enumerate(boxes["layoutIndex"]) if of == row]
        names = ("bounds", "offsetRects", "clientRects", "scrollRects")
        found.append({name: layout[name][row] for name in names if name in layout})
        found[-1]["boxes"] = [[boxes[name][i] for name in ("bounds", "start", "length")] for i in own]
    return found


def test_the_length_of_a_value_is_masked_where_it_is_drawn(pages: ModuleType) -> None:
    # Given two password fields of one size, one with a short value, one with a value that is longer than the field
    def made(length: int, boxes: int) -> tuple[Capture, list[int]]:
        value = pages.text("s" * length, box=(2, 2, 8.5 * length, 17))
        inner = pages.Node("DIV", children=[value], box=(2, 2, 96, 17))
        inner.scroll, inner.client = (0, 0, max(96, 8 * length), 17), (0, 0, 96, 17)
        root = pages.Node("#document-fragment", kind=11, shadow_type="user-agent", children=[inner], box=None)
        node = pages.Node("INPUT", {"type": "password"}, shadow=[root], box=(0, 0, 100, 21), live_value="s" * length)
        node.scroll, node.client = (3, 0, max(96, 8 * length), 17), (2, 2, 96, 17)
        other = pages.text("told", box=(0, 100, 30, 17))
        capture = pages.capture(pages.document(node, other))

        def draw(snapshot: Any) -> None:
            body = snapshot["documents"][0]
            ids = [body["nodes"]["backendNodeId"][i] for i in body["layout"]["nodeIndex"]]
            rows = [ids.index(value.backend_node_id)] * boxes + [ids.index(other.backend_node_id)]
            body["textBoxes"] = {
                "layoutIndex": rows,
                "bounds": [[2, 2, 8, 17]] * boxes + [[0, 100, 30, 17]],
                "start": [*range(boxes), 0],
                "length": [1] * boxes + [4],
            }

        def scroll(document: Any) -> None:
            stack = [document["root"]]
            while stack:
                one = stack.pop()
                if one["backendNodeId"] == inner.backend_node_id and length > 12:
                    one["isScrollable"] = True
                stack += [*one.get("children", ()), *one.get("shadowRoots", ())]

        capture = edited(edited(capture, "layout_snapshot", draw), "dom_document", scroll)
        return capture, [n.backend_node_id for n in (node, inner, value, other)]

    (short, ids), (long, _) = made(3, 1), made(40, 5)
    assert drawn(short, *ids[:3]) != drawn(long, *ids[:3])
    # When they are masked
    masked = [mask_secrets(capture)[0] for capture in (short, long)]
    # Then nothing tells them apart, and other texts stay as they are
    assert drawn(masked[0], *ids) == drawn(masked[1], *ids)
    field_, _, text, other = drawn(masked[1], *ids)
    assert field_["bounds"] == [0, 0, 100, 21]
    assert field_["scrollRects"] == [0, 0, 96, 17]
    assert text["boxes"] == [[[0, 0, 100, 21], 0, len(MASK)]]
    assert other["boxes"] == [[[0, 100, 30, 17], 0, 4]]
    assert b'"isScrollable":true' not in everything(masked[1])
    assert [mask_secrets(capture) for capture in masked] == [(capture, 0) for capture in masked]


def test_a_list_that_scrolled_to_its_choice_is_masked(pages: ModuleType) -> None:
    # Given a list box that shows its second option, and one that shows its first
    def made(chosen: int) -> tuple[Capture, list[int]]:
        options = [
            pages.Node("OPTION", {"selected": ""} if i == chosen else {}, box=(0, 17 * (i - chosen), 50, 17))
            for i in range(2)
        ]
        select = pages.Node("SELECT", {"autocomplete": "cc-type", "size": "1"}, options, box=(0, 0, 50, 17))
        select.scroll, select.client = (0, 17 * chosen, 50, 34), (0, 0, 50, 17)
        capture = pages.capture(pages.document(select))

        def draw(snapshot: Any) -> None:
            snapshot["documents"][0]["textBoxes"] = {"layoutIndex": [], "bounds": [], "start": [], "length": []}

        return edited(capture, "layout_snapshot", draw), [n.backend_node_id for n in (select, *options)]

    (first, ids), (second, _) = made(0), made(1)
    assert drawn(first, *ids) != drawn(second, *ids)
    masked = [mask_secrets(capture)[0] for capture in (first, second)]
    assert drawn(masked[0], *ids) == drawn(masked[1], *ids) == drawn(first, *ids)


@pytest.mark.parametrize("secret_in", ["dom_document", "layout_snapshot"])
def test_a_field_that_one_payload_calls_secret_is_secret_in_all(pages: ModuleType, secret_in: str) -> None:
    """A page may turn its password field into a text field between two payloads ("show password")."""
    capture = pages.capture(pages.document(field(pages, {"type": "text"})))
    text = next(p for p in capture.payloads if p.kind == secret_in)
    changed = replace(text, data=bytes(text.data).replace(b'"text"', b'"password"'))
    capture = Capture(tuple(changed if p is text else p for p in capture.payloads))
    masked, count = mask_secrets(capture)
    assert count == 1
    assert SECRET.encode() not in everything(masked)


def test_a_placeholder_is_no_value(pages: ModuleType) -> None:
    word = pages.Node("DIV", {"pseudo": "-webkit-input-placeholder"}, [pages.text("Your password")], box=None)
    root = pages.Node("#document-fragment", kind=11, shadow_type="user-agent", children=[word], box=None)
    node = pages.Node("INPUT", {"type": "password", "placeholder": "Your password"}, shadow=[root])
    capture = pages.capture(pages.document(node))
    assert mask_secrets(capture) == (capture, 0)


@pytest.mark.parametrize(
    ("text", "near", "becomes"),
    [
        ("a HUNTER\n 2, b", False, f"a {MASK}, b"),
        ("xhunter 2x", False, f"x{MASK}x"),
        ("ab abc May Maybe", True, f"{MASK} abc {MASK} Maybe"),
        ("ab abc May", False, "ab abc May"),
        ("Enter \u2022\u2022\u2022 now \u2022 yes", True, f"Enter {MASK} now \u2022 yes"),
        ("\u0130 Hunter 2 \u0130", False, f"\u0130 {MASK} \u0130"),
        (MASK, True, MASK),
    ],
)
def test_values_are_found_in_texts(text: str, near: bool, becomes: str) -> None:
    assert SecretTexts(["Hunter 2", "ab", "\u2022\u2022\u2022", " "], ["May"]).hide(text, near=near) == becomes


PAGE = """<!doctype html><title>Pay</title><form>
<label><input type=checkbox> Pay with <input autocomplete=cc-number value=LEAK01> card</label>
<label>Enter <input type=password value=LEAK02> now <button>go</button></label>
<button>x <span><input autocomplete=one-time-code value=LEAK03></span></button>
<a href=#>link <input autocomplete="section-a billing CC-CSC" value=LEAK04></a>
<div role=heading>head <textarea autocomplete=cc-name>LEAK05
two</textarea></div>
<input id=f6 type=password value=LEAK06><button aria-labelledby=f6>lab</button>
<input aria-describedby=f7><input id=f7 autocomplete=one-time-code value=LEAK07>
<input type=password id=f8><input autocomplete=cc-number id=f9><input type=text autocomplete=current-password id=f10>
<script>for (const id of ["f8", "f9", "f10"]) document.getElementById(id).value = "LE" + "AK" + id</script>
<div id=host></div><script>host.attachShadow({mode: "open"}).innerHTML =
 '<label>p<input type=radio><input autocomplete="cc-number" value="LE' + 'AK11"></label>'</script>
<input type=password value=LEAK12 aria-valuetext=LEAK12 data-value=LEAK12 placeholder="placed">
<details><summary>s <input autocomplete=new-password value=LEAK13></summary></details>
<table><tr><td>cell <input autocomplete=cc-number value=LEAK14></td></tr></table>
<ul role=listbox><li role=option>opt <input autocomplete=cc-number value=LEAK15></li></ul>
<iframe srcdoc='<label><input type=radio> in <input autocomplete=cc-number value=LEAK16></label>'></iframe>
<iframe srcdoc='<input type=password value=LEAK17>' sandbox></iframe>
<iframe srcdoc='<iframe srcdoc="<button>b <input autocomplete=cc-csc value=LEAK18></button>"></iframe>'></iframe>
<button>on <input type=month autocomplete=cc-exp value=3027-05></button>
<button>num <input type=number autocomplete=one-time-code value=00774420></button>
<button>upper <input autocomplete=cc-name value="leak19 \u00df" style="text-transform: uppercase"></button>
<input autocomplete=username value=shown01><p>shown02</p>
<label>Month <select autocomplete=cc-exp-month><option>shown03<option selected>shown04</select></label>
<select size=2 autocomplete=cc-type><option>list01<option>list02<option>list03<option selected>list04</select>
<input size=9 type=password value=LEAK20><input size=9 type=password value=LEAK21-and-so-much-more-that-it-must-scroll>
<input type=password value=LEAK22 id=LEAK22 name=LEAK22 class=LEAK22 pattern=LEAK22 style="--a: LEAK22" max=LEAK22>
<input type=password value=LEAK23 placeholder=LEAK23>
</form>"""
XHTML = """<?xml version="1.0"?>
<h:html xmlns:h="http://www.w3.org/1999/xhtml"><h:head><h:title>ns</h:title></h:head><h:body>
<h:input type="password" value="LEAK31"/><h:textarea autocomplete="cc-name">LEAK32</h:textarea>
<h:button>b <h:input autocomplete="one-time-code" value="LEAK33"/></h:button>
<h:iframe srcdoc="&lt;input type=password value=LEAK34>"/>
<h:iframe srcdoc="&lt;input type=password value=LEAK35>" sandbox=""/>
<h:select autocomplete="cc-type"><h:option>list05</h:option><h:option selected="">list06</h:option></h:select>
</h:body></h:html>"""
HIDDEN = (b"LEAK", b"leak19", b"3027-05", b'"3027', b":3027", b">3027", b" 3027", b"00774420", b":774420", b'"774420')
SHOWN = (b"shown01", b"shown02", b"shown03", b"shown04", b"placed", b"list06")
OPTIONS = {"shown03", "shown04", *(f"list0{i}" for i in range(1, 7))}


def cells(folder: Path) -> Iterator[bytes]:
    """Every value of every column of every file, compressed ones as what they hold."""
    for path in sorted(folder.rglob("*.parquet")):
        table = pq.read_table(path)
        for name in table.column_names:
            for value in table[name].to_pylist():
                if isinstance(value, bytes):
                    yield pa.CompressedInputStream(pa.BufferReader(value), "zstd").read()
                else:
                    yield str(value).encode("utf-8", "surrogatepass")


@pytest.mark.browser
def test_no_secret_of_a_real_page_reaches_any_table(site: Any, browser_path: Path, tmp_path: Path) -> None:
    # Given pages that have Chromium repeat secrets wherever it computes names
    urls = [site.page("/pay", PAGE), site.page("/pay.xhtml", XHTML, content_type="application/xhtml+xml")]
    # When it is captured
    command = [
        sys.executable,
        "-m",
        "scheduler.cli",
        "crawl",
        *urls,
        "--store",
        str(tmp_path / "store"),
        "--allow-private",
    ]
    environment = {**os.environ, "PAGESTATE_BROWSER": str(browser_path)}
    done = subprocess.run(command, env=environment, capture_output=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr.decode()
    # Then no value of any column holds one, and what is no secret is there
    found = list(cells(tmp_path / "store"))
    assert [cell for needle in HIDDEN for cell in found if needle in cell] == []
    for needle in SHOWN:
        assert any(needle in cell for cell in found)
    for path in (tmp_path / "store").rglob("*"):
        assert not path.is_file() or not any(needle in path.read_bytes() for needle in HIDDEN)
    # nor is one option told apart from the others
    store = FolderStore.for_reading(str(tmp_path / "store"))
    captures = [load_capture(store, row["page_id"]) for row in latest_listings(store, ["page_id"]).to_pylist()]
    nodes = [n for capture in captures for p in capture.of("ax_tree") for n in json.loads(p.data)["nodes"]]
    options = [node for node in nodes if node.get("role", {}).get("value") == "option"]
    options = [node for node in options if node["name"]["value"] != f"opt {MASK}"]  # a list item with a field in it
    assert {node["name"]["value"] for node in options} == OPTIONS
    assert {json.dumps(node["properties"]) for node in options} == {json.dumps(options[0]["properties"])}
    # and no secret field, nor anything in it, can be scrolled
    for capture in captures:
        assert told_scrollable(capture) == []


def told_scrollable(capture: Capture) -> list[str]:
    """The tags of the secret fields, and of what is inside them, that a payload calls scrollable or scrolled."""
    body = decoded(capture, "layout_snapshot")["documents"][0]
    layout, clients = body["layout"], body["layout"]["clientRects"]
    rows = {body["nodes"]["backendNodeId"][node]: row for row, node in enumerate(layout["nodeIndex"])}
    found = []
    stack = [(decoded(capture, "dom_document")["root"], False)]
    while stack:
        node, inside = stack.pop()
        inside = inside or MASK in node.get("attributes", ())
        row = rows.get(node["backendNodeId"])
        scroll = layout["scrollRects"][row] if row is not None else []
        if inside and (node.get("isScrollable") or (scroll and scroll != [0, 0, *clients[row][2:]])):
            found.append(node["nodeName"])
        if node["nodeName"].endswith(("SELECT", "select")) and scroll and scroll[:2] != [0, 0]:
            found.append(node["nodeName"])
        stack += [(below, inside) for below in (*node.get("children", ()), *node.get("shadowRoots", ()))]
    return found


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
    frame = pages.Node("IFRAME", {"srcdoc": "<input type=password value=hidden>"})
    found = [may_hold_secret(snapshot_of(pages, *nodes)) for nodes in ((talk,), (talk, field), (talk, frame))]
    assert found == [False, True, True]


def snapshot_of(pages: ModuleType, *nodes: object) -> Payload:
    snapshot: Payload = next(pages.capture(pages.document(*nodes)).of("layout_snapshot"))
    return snapshot
