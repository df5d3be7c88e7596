"""Writes the heavy pages of the bench: rows of ordinary controls, and opaque cards that overlap."""

from __future__ import annotations

from pathlib import Path

NODES_OF_ROW = 15
"""Of the document, those that the browser puts into a field included."""
_ROWS = """<!doctype html><meta charset=utf-8><title>{count} rows</title>
<style>.row{{display:inline-block;width:300px;vertical-align:top;border:1px solid}}.odd{{background:#f4f4f4}}</style>"""
_ROW = (
    '<div class="row{odd}"><div><a href="/goods/{i}" class=name>Goods number {i}</a>'
    "<span>What is said about the goods number {i}, at some length</span></div>"
    '<div><button type=button id=take{i}>Take {i}</button><input name=count{i} placeholder="How many of {i}">'
    "<p>Price on request {i}</p></div></div>"
)
_CARDS = """<!doctype html><meta charset=utf-8><title>{count} cards</title>
<style>div{{position:absolute;width:130px;height:90px;background:#bcd}}</style>"""
_CARD = '<div style="left:{left}px;top:{top}px;z-index:{i}">Card {i}</div>'


def write_rows(folder: Path, nodes: int) -> str:
    """A page of about so many nodes; every button and every field is opaque. Returns the file's name."""
    count = nodes // NODES_OF_ROW
    rows = [_ROW.format(i=i, odd=" odd" if i % 3 == 1 else "") for i in range(count)]
    return _write(folder / f"rows-{nodes}.html", _ROWS.format(count=count), rows)


def write_cards(folder: Path, count: int) -> str:
    """A page of opaque cards, each painted above the one before and across several others. Returns the file's name."""
    cards = [_CARD.format(i=i, left=i * 73 % 1100, top=i * 131 % 1900) for i in range(count)]
    return _write(folder / f"cards-{count}.html", _CARDS.format(count=count), cards)


def _write(path: Path, head: str, parts: list[str]) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(head + "".join(parts))
    return path.name
