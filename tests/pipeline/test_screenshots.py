"""Pictures of real pages by a real browser: what they show, where, how large, and what they must not show."""

from __future__ import annotations

import asyncio
import base64
import io
import json
from datetime import timedelta
from typing import Any

import pytest
from PIL import Image

from scheduler.verify import verify
from schemas.errors import CommandFailed
from schemas.profiles import PROFILES
from schemas.settings import Budgets, CrawlSettings, ScreenshotSettings
from workers.browser.channel import Channel
from workers.screenshot.drawing import COLOURS, COVER
from workers.store import screenshot_of

pytestmark = pytest.mark.browser

RED, BLUE, BLACK = (255, 0, 0), (0, 0, 255), (0, 0, 0)
PAGE = "<!doctype html><style>body{margin:0} *{box-sizing:border-box}</style>"


def settings(**changes: Any) -> CrawlSettings:
    return CrawlSettings(screenshot=ScreenshotSettings(**({"area": "viewport", "format": "png"} | changes)))


def colour(text: str) -> tuple[int, ...]:
    return tuple(bytes.fromhex(text.removeprefix("#")))


def picture(row: dict[str, Any]) -> Image.Image:
    image = Image.open(io.BytesIO(row["image"]))
    assert image.format == row["format"].upper()
    assert image.size == (row["width"], row["height"])
    return image.convert("RGB")


def stage(done: Any) -> dict[str, Any]:
    (found,) = [row for row in done.table("stage_metrics") if row["stage"] == "screenshot"]
    return found


def test_no_picture_is_taken_unless_asked_for(crawled, site):
    done = crawled([site.page("/", "<p>text</p>")])
    assert done.table("screenshots") == []
    assert "screenshot" not in {row["stage"] for row in done.table("stage_metrics")}
    assert not any(path.startswith("data/screenshots/") for path in done.store.list("data/"))


@pytest.mark.parametrize("encoding", ["png", "webp"])
def test_a_picture_of_the_viewport_shows_what_the_page_was_scrolled_to(crawled, site, encoding):
    page = (
        f"{PAGE}<div style='height:2000px;background:#f00'></div><div style='height:3000px;background:#00f'></div>"
        "<script>scrollTo(0, 1500)</script>"
    )
    done = crawled([site.page("/", page)], settings(format=encoding))
    (row,) = done.table("screenshots")
    assert (row["area"], row["scale"], row["x"], row["y"], row["cut"]) == ("viewport", 1.0, 0.0, 1500.0, False)
    assert (row["page_height"], row["height"]) == (5000.0, 1100)
    assert row["page_width"] == row["width"] < 1280  # the scrollbar is not in it
    image = picture(row)
    # WebP is lossy
    assert image.getpixel((600, 480))[0] > 240 > 20 > image.getpixel((600, 520))[0]
    assert (stage(done)["outcome"], stage(done)["bytes"]) == ("ok", len(row["image"]))
    assert verify(done.store).problems == []


def test_a_full_page_is_cut_at_its_cap_and_made_smaller_by_its_pixels(crawled, site):
    page = f"{PAGE}<div style='height:500px;background:#f00'></div><div style='height:99500px;background:#00f'></div>"
    limits = {"area": "full", "max_page_height": 4000, "max_pixels": 1_280_000}
    (row,) = crawled([site.page("/", page)], settings(**limits)).table("screenshots")
    assert (row["page_height"], row["cut"], row["page_width"]) == (100_000.0, True, 1280.0)
    assert row["scale"] == pytest.approx(0.5, abs=0.005)
    assert (row["width"], row["height"]) == (pytest.approx(640, abs=4), pytest.approx(2000, abs=10))
    image = picture(row)
    edge = round(500 * row["scale"])
    assert (image.getpixel((300, edge - 3)), image.getpixel((300, edge + 3))) == (RED, BLUE)
    assert image.getpixel((300, row["height"] - 1)) == BLUE


def test_a_picture_that_is_over_its_bytes_is_made_smaller(crawled, site):
    spots = "".join(
        f"<i style='position:absolute;left:{n * 37 % 1200}px;top:{n * 91 % 1000}px'>{n}</i>" for n in range(500)
    )
    (row,) = crawled([site.page("/", PAGE + spots)], settings(max_bytes=20_000)).table("screenshots")
    assert row["bytes"] == len(row["image"]) <= 20_000
    assert row["scale"] == pytest.approx(row["width"] / 1280)
    assert row["scale"] < 1


def test_a_phone_s_page_is_pictured_as_the_phone_shows_it(crawled, site):
    """A command of the raw session must not undo the emulation: neither its scale nor its layout."""
    page = (
        "<!doctype html><meta name=viewport content='width=device-width'><style>body{margin:0;height:50px;"
        "background:#f00} @media (min-width: 500px) {body{background:#00f}}</style><a href=/x>x</a>"
    )
    mobile = CrawlSettings(profiles=(PROFILES["mobile"],), screenshot=ScreenshotSettings("viewport", "png", True))
    (row,) = crawled([site.page("/", page)], mobile).table("screenshots")
    assert (row["width"], row["height"], row["scale"]) == (1236, 2745, 3.0)
    assert picture(row).getpixel((600, 600)) == RED


BOXES = f"""{PAGE}<button style='position:absolute;left:100px;top:200px;width:200px;height:60px'></button>
<iframe style='position:absolute;left:400px;top:300px;width:300px;height:200px;border:10px solid #eee;padding:5px'
 srcdoc="<style>body{{margin:0}}</style><p style='height:50px;margin:0'>
<button style='position:absolute;left:30px;top:90px;width:100px;height:40px'></button>
<div style='height:900px'></div><script>onload = () => scrollTo(0, 20)</script>"></iframe>
<div style='position:absolute;left:800px;top:100px;width:100px;height:100px;overflow:auto'>
<button style='width:50px;height:30px'></button><div style='height:300px'></div>
<button style='width:50px;height:30px'></button></div>"""


@pytest.mark.parametrize("area", ["viewport", "full"])
def test_boxes_are_where_the_elements_are(crawled, site, area):
    """In frames with borders, paddings and scroll offsets too; what its container hides is not framed."""
    done = crawled([site.page("/", BOXES)], settings(area=area, boxes=True))
    (row,) = done.table("screenshots")
    image = picture(row)
    numbers = sorted(element["index"] for element in done.table("selector_maps") if element["printed"])
    framed = {colour(text) for text in COLOURS[: len(numbers)]}
    for left, top, width, height in ((100, 200, 200, 60), (445, 385, 100, 40)):
        middle = top + height // 2
        corners = [(left, middle), (left + width - 1, middle), (left + width // 2, top + height - 1)]
        assert all(image.getpixel(place) in framed for place in corners), (left, top)
        assert image.getpixel((left - 3, top + height // 2)) not in framed
    below = {image.getpixel((x, y)) for x in range(800, 900) for y in range(205, 600)}
    assert not below & framed
    assert row["boxes"] == len(numbers) - 1


SECRET_FIELDS = [
    "<input autocomplete=cc-number value={}>",
    "<input autocomplete='section-a one-time-code' value={}>",
    "<input type=password value={}>",
    "<input autocomplete=current-password value={}>",
    "<textarea autocomplete=cc-name>{}</textarea>",
    "<select autocomplete=cc-exp-month><option>{}</select>",
    "<input type=number autocomplete=cc-csc value={}>",
]


def secret_page(values: list[str], frame: str) -> str:
    fields = "".join(f"<p>{field.format(value)}</p>" for field, value in zip(SECRET_FIELDS, values, strict=True))
    rest = "<p><input autocomplete=cc-number placeholder=number></p><input value=plain>"
    inner = f"<style>body{{margin:0}}input{{width:90px}}</style><input autocomplete=cc-number value={frame}>"
    script = (
        "<div id=host></div><script>host.attachShadow({mode: 'closed'}).innerHTML ="
        f" '<input autocomplete=one-time-code value={values[0]}>'</script>"
    )
    style = "<style>input, select, textarea {width: 200px}</style>"
    return f'{PAGE}{style}{fields}{rest}{script}<iframe srcdoc="{inner}"></iframe>'


@pytest.mark.parametrize("area", ["viewport", "full"])
def test_secret_values_cannot_be_read_in_a_picture(crawled, site, area):
    """Pages that differ in secret values alone have the same picture, to the last pixel.

    Without numbers, which are the browser's and may differ by one.
    """
    one = site.page("/one", secret_page(["11111"] * 7, "4111"))
    other = site.page("/other", secret_page(["987"] * 7, "55"))
    done = crawled([one, other], settings(area=area))
    rows = {row["url_key"]: row for row in done.table("screenshots")}
    assert rows[one]["covered"] == rows[other]["covered"] == len(SECRET_FIELDS) + 2
    assert rows[one]["image"] == rows[other]["image"]
    assert colour(COVER) in {pixel for _, pixel in picture(rows[one]).getcolors(maxcolors=1 << 24)}


def test_an_empty_secret_field_and_a_plain_one_are_shown(crawled, site):
    fields = "<input autocomplete=cc-number placeholder=number><input type=password><input value=plain>"
    (row,) = crawled([site.page("/", PAGE + fields)], settings()).table("screenshots")
    assert row["covered"] == 0


def test_a_field_that_moves_is_covered_wherever_it_may_have_been(crawled, site):
    """It goes on moving between the snapshots and the picture."""
    page = (
        f"{PAGE}<style>@keyframes k {{to {{left: 900px}}}} input {{position:absolute;left:0;top:50px;width:150px;"
        "height:30px;border:0;background:#f00;color:#f00;animation:k 20s linear}</style>"
        "<input autocomplete=cc-number value=4111>"
    )
    (row,) = crawled([site.page("/", page)], settings()).table("screenshots")
    assert row["covered"] == 1
    assert not {pixel for _, pixel in picture(row).getcolors(maxcolors=1 << 24)} & {RED}


def failing(monkeypatch: pytest.MonkeyPatch, answer: Any) -> None:
    """Pictures that end as `answer` says; every other command goes its way."""
    post = Channel.post

    def faulty(self: Channel, method: str, params: Any = None, session: str = "") -> Any:
        if method != "Page.captureScreenshot":
            return post(self, method, params, session)
        return answer(lambda named=method: post(self, named, params, session))

    monkeypatch.setattr(Channel, "post", faulty)


def future() -> asyncio.Future[bytes]:
    return asyncio.get_running_loop().create_future()


def refused(ask: Any) -> asyncio.Future[bytes]:
    answer = future()
    answer.set_exception(CommandFailed("Page.captureScreenshot", -32000, "Unable to capture screenshot"))
    return answer


def unanswered(ask: Any) -> asyncio.Future[bytes]:
    return future()


def nonsense(ask: Any) -> asyncio.Future[bytes]:
    answer = future()
    answer.set_result(json.dumps({"data": base64.b64encode(b"no picture").decode()}).encode())
    return answer


def crashing(method: str) -> Any:
    def crash(ask: Any) -> Any:
        ask(method).add_done_callback(lambda reply: reply.exception())
        return ask()

    return crash


@pytest.mark.parametrize(
    ("answer", "outcome", "detail"),
    [
        (refused, "error", "Unable to capture screenshot"),
        (unanswered, "timeout", "no picture within"),
        (nonsense, "error", "cannot identify image"),
    ],
)
def test_a_picture_that_fails_or_is_late_costs_the_page_nothing_else(
    crawled, site, monkeypatch, answer, outcome, detail
):
    url = site.page("/", "<a href=/x>link</a>")
    failing(monkeypatch, answer)
    with_pictures = CrawlSettings(
        screenshot=ScreenshotSettings("viewport"), budgets=Budgets(screenshot=timedelta(seconds=1))
    )
    done = crawled([url], with_pictures)
    row = done.rows()[url]
    assert (row["outcome"], row["degradations"], row["interactive_elements"]) == ("ok", ["screenshot_failed"], 1)
    assert stage(done)["outcome"] == outcome
    assert detail in stage(done)["detail"]
    assert done.table("screenshots") == []
    assert done.table("captures")
    assert verify(done.store).problems == []


@pytest.mark.parametrize("method", ["Browser.crash", "Page.crash"])
def test_a_browser_or_a_page_that_dies_over_the_picture_keeps_its_row(crawled, site, monkeypatch, method):
    url = site.page("/", "<a href=/x>link</a>")
    failing(monkeypatch, crashing(method))
    done = crawled([url], settings())
    row = done.rows()[url]
    assert (row["outcome"], row["degradations"], row["interactive_elements"]) == ("ok", ["screenshot_failed"], 1)
    assert stage(done)["outcome"] == "error"


def test_a_picture_leaves_the_payloads_as_they_are(crawled, tmp_path, site):
    """The listing of a page with a picture is that of the page without."""
    url = site.page("/", BOXES)
    done = crawled([url], settings(area="full", boxes=True))
    order = [row["stage"] for row in done.table("stage_metrics")]
    assert order.index("screenshot") > order.index("listing")
    started = {row["stage"]: row["started_ms"] + row["duration_ms"] for row in done.table("stage_metrics")}
    begun = stage(done)["started_ms"]
    assert all(begun >= started[name] for name in ("layout_snapshot", "dom_document", "ax_tree"))
    picture_row = screenshot_of(done.store, done.rows()[url]["page_id"])
    assert picture_row is not None
    assert picture_row["image"] == done.table("screenshots")[0]["image"]
