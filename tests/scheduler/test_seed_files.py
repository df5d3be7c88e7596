"""Seed files as people have them: CSV, JSON lines, Parquet, sitemaps; each may be gzipped, each may be wrong."""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.seed_files import SEED_FORMATS
from scheduler.sitemaps import MAX_SITEMAP_BYTES, NoSitemap
from scheduler.sources import SeedList, read_seeds
from schemas.errors import SeedError

URLS = ["https://a.org/1", "https://b.org/2?x=1,2", "https://c.org/3"]
XMLNS = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'


def read(*arguments: str | Path, stdin: bytes = b"", **options) -> SeedList:
    return read_seeds([str(argument) for argument in arguments], io.BytesIO(stdin), **options)


def keys(found: SeedList) -> list[str]:
    return [page.url_key for page in found.pages]


def problems(found: SeedList) -> list[str]:
    return [str(problem) for problem in found.problems]


def sitemap(*locations: str, tag: str = "url", root: str = "urlset") -> bytes:
    body = "".join(f"<{tag}><loc>\n {url} </loc><lastmod>2026</lastmod></{tag}>" for url in locations)
    return f'<?xml version="1.0" encoding="UTF-8"?><{root} {XMLNS}>{body}</{root}>'.encode()


def table(column: str = "url", values=URLS) -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.table({"id": list(range(len(values))), column: values}), out)
    return out.getvalue()


FILES = {
    "text": ("\n".join(URLS).encode(), "urls.txt"),
    "comma": (
        b'\xef\xbb\xbfid,URL ,note\n1,https://a.org/1,x\n2,"https://b.org/2?x=1,2",y\n3,https://c.org/3,',
        "u.csv",
    ),
    "semicolon": (b"id;url\r\n1;https://a.org/1\r\n\r\n2;https://b.org/2?x=1,2\r\n3;https://c.org/3\r\n", "u.csv"),
    "tab": (b"url\tid\nhttps://a.org/1\t1\nhttps://b.org/2?x=1,2\t2\nhttps://c.org/3\t3\n", "u.tsv"),
    "one column": (b'url\nhttps://a.org/1\n"https://b.org/2?x=1,2"\nhttps://c.org/3\n', "u.csv"),
    "quoted line end": (b'note,url\n"a\nb",https://a.org/1\nx,"https://b.org/2?x=1,2"\ny,https://c.org/3\n', "u.csv"),
    "json lines": ("\n\n".join(json.dumps({"id": 1, "url": url}) for url in URLS).encode(), "u.jsonl"),
    "parquet": (table(), "u.parquet"),
    "dictionary": (table(values=pa.array(URLS).dictionary_encode()), "u.parquet"),
    "sitemap": (sitemap(*(url.replace("&", "&amp;") for url in URLS)), "u.xml"),
}


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize("name", FILES)
def test_every_format(tmp_path, name, packed):
    """Told by the file's name; or by the option, for another name and for standard input."""
    data, file_name = FILES[name]
    if packed:
        data, file_name = gzip.compress(data), f"{file_name}.gz"
    file, other = tmp_path / file_name, tmp_path / "other"
    file.write_bytes(data)
    other.write_bytes(data)
    found = read(file)
    assert (keys(found), problems(found)) == (URLS, [])
    kind = {"u.csv": "csv", "u.tsv": "csv", "u.jsonl": "jsonl", "u.parquet": "parquet", "u.xml": "sitemap"}.get(
        file_name.removesuffix(".gz"), "text"
    )
    assert keys(read(other, kind=kind)) == URLS
    assert keys(read("-", stdin=data, kind=kind)) == URLS


def test_a_row_that_is_no_seed_is_reported_with_its_line_and_the_rest_goes_on(tmp_path):
    csv, lines, parquet = tmp_path / "u.csv", tmp_path / "u.jsonl", tmp_path / "u.parquet"
    csv.write_bytes(b'note,url\n"two\nlines",www.a.org\nx,\n\nx\ny,https://me:pw@a.org/1\nz,\xff\n')
    lines.write_bytes(b'{"url": "https://b.org/"}\n{"url": 1}\n["https://c.org"]\n{\n{"url": "ftp://d.org"}\n')
    parquet.write_bytes(table(values=["https://e.org/", None, "x"]))
    found = read(csv, lines, parquet)
    assert keys(found) == ["https://a.org/1", "https://b.org/", "https://e.org/"]
    said = [text.removeprefix(f"{tmp_path}/") for text in problems(found)]
    assert [text.split(": ", 1)[0] for text in said] == [
        *("u.csv:3", "u.csv:4", "u.csv:6", "u.csv:8"),
        *("u.jsonl:2", "u.jsonl:3", "u.jsonl:4", "u.jsonl:5"),
        *("u.parquet:2", "u.parquet:3"),
    ]
    assert "its url is empty" in said[1]
    assert "it is no JSON" in said[6]


WRONG = {
    "no column": ("u.csv", b"link,id\nhttps://a.org,1\n", "has no column url"),
    "no header": ("u.csv", b"https://a.org\n", "has no column url"),
    "empty": ("u.csv", b"", "has no column url"),
    "UTF-16": ("u.csv", "url\nhttps://a.org".encode("utf-16"), "UTF-16"),
    "no Parquet": ("u.parquet", b"url\nhttps://a.org", "is no Parquet that can be read"),
    "cut Parquet": ("u.parquet", table()[:-20], "is no Parquet that can be read"),
    "Parquet column": ("u.parquet", table("link"), "it has id, link"),
    "Parquet type": ("u.parquet", table(values=[1, 2]), "is int64, not text"),
    "cut gzip": ("u.txt.gz", gzip.compress(b"https://a.org\n" * 9)[:-9], "cannot be read"),
    "gzip sitemap": ("u.xml.gz", gzip.compress(sitemap(*URLS))[:-9], "its compression is damaged"),
    "HTML": ("u.xml", b"<html><body>404</body></html>", "its root is 'html'"),
    "no XML": ("u.xml", b"hello", "is no sitemap: its XML ends at line 1"),
    "empty XML": ("u.xml", b"", "is no sitemap"),
    "cut XML": ("u.xml", sitemap(*URLS)[:-30], "its XML ends at line"),
    "bomb": ("u.xml.gz", gzip.compress(b" " * (MAX_SITEMAP_BYTES + 1)), f"larger than {MAX_SITEMAP_BYTES} bytes"),
    "too many": ("u.xml", sitemap(*(f"https://a.org/{n}" for n in range(50_001))), "more than 50000 entries"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_file_that_is_none_is_one_sentence(tmp_path, name):
    file_name, data, said = WRONG[name]
    (tmp_path / file_name).write_bytes(data)
    with pytest.raises(SeedError) as refused:
        read("https://z.org/", tmp_path / file_name)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_entities_of_a_sitemap_are_not_replaced(tmp_path):
    """Neither a file nor a billion laughs comes out of one (pain 33)."""
    file = tmp_path / "u.xml"
    urls = "<url><loc>https://a.org/&f;</loc></url><url><loc>https://b.org/</loc></url>"
    file.write_text(f"<!DOCTYPE urlset [<!ENTITY f SYSTEM 'file:///etc/passwd'>]><urlset {XMLNS}>{urls}</urlset>")
    assert keys(read(file)) == ["https://a.org/&f;", "https://b.org/"]
    laughs = "".join(f"<!ENTITY l{n} '{f'&l{n - 1};' * 10}'>" for n in range(1, 30))
    file.write_text(f"<!DOCTYPE urlset [<!ENTITY l0 'ha'>{laughs}]><urlset><url><loc>&l29;</loc></url></urlset>")
    with pytest.raises(SeedError, match="is no sitemap: its XML ends at line 1: Maximum entity nesting"):
        read(file)


class Web:
    """Sitemaps by their URL; what is not there cannot be had."""

    def __init__(self, **files: bytes) -> None:
        self.files = {f"https://a.org/{name}": data for name, data in files.items()}
        self.asked: list[str] = []

    def __call__(self, url: str) -> bytes:
        self.asked.append(url)
        if url not in self.files:
            raise NoSitemap("it answered 404 and nothing")
        return self.files[url]


def index(*names: str) -> bytes:
    return sitemap(*(f"https://a.org/{name}" for name in names), tag="sitemap", root="sitemapindex")


def test_an_index_is_followed_once_and_what_is_missing_is_reported(tmp_path):
    web = Web(
        top=index("one", "gone", "two", "top", "html"),
        one=gzip.compress(sitemap("https://a.org/1")),
        two=index("one", "three"),
        three=sitemap("https://a.org/3", "/relative"),
        html=b"<html/>",
    )
    found = read("sitemap:https://a.org/top", fetch=web)
    assert keys(found) == ["https://a.org/1", "https://a.org/3"]
    assert web.asked == [f"https://a.org/{name}" for name in ("top", "one", "gone", "two", "three", "html")]
    said = problems(found)
    assert len(said) == 3
    assert "https://a.org/gone is no seed: it is a sitemap that cannot be used (it answered 404" in said[0]
    assert said[1].startswith("https://a.org/three:2: /relative is no seed")
    assert "its root is 'html'" in said[2]
    (tmp_path / "top.xml").write_bytes(web.files["https://a.org/top"])
    assert keys(read(tmp_path / "top.xml", fetch=web)) == keys(found)


def test_indexes_without_end_are_left_at_the_third_level():
    web = Web(**{f"s{n}": index(f"s{n + 1}") for n in range(100)})
    with pytest.raises(SeedError, match="it lies beyond 3 levels"):
        read("sitemap:https://a.org/s0", fetch=web)
    assert len(web.asked) == 4


def test_a_sitemap_that_cannot_be_had_is_one_sentence():
    with pytest.raises(SeedError, match=r"^The sitemap https://a\.org/none cannot be used: it answered 404"):
        read("sitemap:https://me:pw@a.org/none", fetch=Web())
    with pytest.raises(SeedError, match=r"^The sitemap urls\.xml is none: .*; give sitemap: and an http or https URL"):
        read("sitemap:urls.xml", fetch=Web())
    with pytest.raises(SeedError, match="which nothing here does"):
        read("sitemap:https://a.org/s")


def test_strict_refuses_the_first_seed_that_is_none(tmp_path):
    file = tmp_path / "u.csv"
    file.write_bytes(b"url\nhttps://a.org/\nwww.b.org\n")
    assert keys(read(file)) == ["https://a.org/"]
    with pytest.raises(SeedError, match=r"u\.csv:3: www\.b\.org is no seed: .*; mend it, or leave --strict out"):
        read(file, strict=True)
    file.write_bytes(b"url\nhttps://a.org/\n")
    assert keys(read(file, strict=True)) == ["https://a.org/"]


@given(st.binary(max_size=300), st.sampled_from(SEED_FORMATS))
def test_any_bytes_are_seeds_or_one_sentence(data: bytes, kind):
    try:
        found = read("https://a.org/", "-", stdin=data, kind=kind)
    except SeedError as error:
        said = str(error)
    else:
        said = " ".join(problem.text for problem in found.problems)
        assert "https://a.org/" in keys(found)
    assert "\n" not in said
