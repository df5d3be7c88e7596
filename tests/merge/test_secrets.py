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


def test_attributes_of_the_field_that_say_its_value_are_masked(pages: ModuleType) -> None:
    said = {"aria-valuetext": SECRET, "aria-valuenow": "3", "data-first": f"v={SECRET}", "title": "Your code"}
    capture = pages.capture(pages.document(field(pages, {"type": "password", "id": SECRET, **said})))
    tree = merge(mask_secrets(capture)[0])
    masked = {"aria-valuetext": MASK, "aria-valuenow": MASK, "data-first": f"v={MASK}", "title": "Your code"}
    assert tree.attributes(3) == {"type": "password", "id": SECRET, **masked, "value": MASK}
    assert list(map(str, decoded(mask_secrets(capture)[0], "layout_snapshot")["strings"])).count(f"v={SECRET}") == 0


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
    root = pages.Node("#document-fragment", kind=11, shadow_type="user-agent", children=[shown], box=None)
    select = pages.Node("SELECT", {"autocomplete": "cc-exp-month"}, options, role="combobox", shadow=[root])
    label = pages.Node("BUTTON", children=[select], role="button", ax_name="On Twelve or later")
    capture = pages.capture(pages.document(label, pages.text("Twelve apostles", role="StaticText")))
    ids = [option.backend_node_id for option in options]

    def choose(tree: Any) -> None:
        for node in tree["nodes"]:
            if node["backendDOMNodeId"] == select.backend_node_id:
                node["value"] = {"type": "string", "value": "Twelve"}
                node["childIds"] = [str(i) for i in ids]
                active = {"type": "idref", "relatedNodes": [{"backendDOMNodeId": ids[1]}]}
                node["properties"] = [{"name": "activedescendant", "value": active}]
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
    assert [tree.attributes(i - 1) for i in ids] == [{}, {}]
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
</form>"""
HIDDEN = (b"LEAK", b"leak19", b"3027-05", b'"3027', b":3027", b">3027", b" 3027", b"00774420", b":774420", b'"774420')
SHOWN = (b"shown01", b"shown02", b"shown03", b"shown04", b"placed")


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
    # Given a page that has Chromium repeat secrets wherever it computes names
    url = site.page("/pay", PAGE)
    # When it is captured
    command = [
        sys.executable,
        "-m",
        "scheduler.cli",
        "crawl",
        url,
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
