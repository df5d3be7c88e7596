"""Rows are capped: a page that is one text of 20 MB, or one attribute, fills no column with it, and its row says so.

The whole of it is in the stored capture.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Final

from schemas.outcomes import Degradation
from schemas.records import Row
from schemas.settings import Caps

MAX_ATTRIBUTES: Final = 1000
"""So many attributes of an element are kept in its row."""
FORMS: Final = ("listing", "outline")


def cap_forms(row: Row, caps: Caps) -> set[Degradation]:
    """Cuts the texts of the forms in a row of `listings`, whose hashes are then those of what is stored."""
    degradations: set[Degradation] = set()
    for name in FORMS:
        text = row.get(name)
        if text is not None and len(text) > caps.text_chars:
            row[name] = text[: caps.text_chars]
            row[f"{name}_sha256"] = sha256(row[name].encode()).hexdigest()
            degradations.add("text_truncated")
    return degradations


def cap_rows(rows: list[Row], caps: Caps) -> set[Degradation]:
    """Cuts texts, attributes and the number of attributes in rows of the maps."""
    limit = caps.attribute_chars
    degradations: set[Degradation] = set()
    for row in rows:
        for name, value in row.items():
            if type(value) is str and len(value) > limit:
                row[name] = value[:limit]
                degradations.add("text_truncated")
        attributes = row.get("attributes")
        if attributes and (len(attributes) > MAX_ATTRIBUTES or max(len(value) for _, value in attributes) > limit):
            row["attributes"] = [(name[:limit], value[:limit]) for name, value in attributes[:MAX_ATTRIBUTES]]
            degradations.add("attributes_truncated")
    return degradations
