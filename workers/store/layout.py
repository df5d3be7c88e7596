"""Where everything lies in a store; ARCHITECTURE section 7 draws the same picture."""

from __future__ import annotations

from typing import Final

from schemas.tables import TableName

CRAWL_FILE: Final = "crawl.json"
MARKERS: Final = "commits/"
PLANS: Final = "plan/"
CLAIMS: Final = "claims/"
JOURNALS: Final = "journal/"
QUARANTINE: Final = "quarantine/"
LINKS: Final = "links/"


def data_path(table: TableName, crawl: str, round_number: int, batch_id: str, attempt: str) -> str:
    """The file of one table, batch and attempt; no other attempt ever writes to it."""
    return f"data/{table}/crawl={crawl}/round={round_number}/part-{batch_id}-{attempt}.parquet"


def marker_path(round_number: int, batch_id: str) -> str:
    """The commit marker of a batch."""
    return f"{MARKERS}{round_number}/{batch_id}.json"


def markers_of_round(round_number: int) -> str:
    """The folder of a round's markers."""
    return f"{MARKERS}{round_number}/"


def plan_of_round(round_number: int) -> str:
    """The folder of a round's plan."""
    return f"{PLANS}round={round_number}/"


def plan_path(round_number: int, first_lane: int, last_lane: int, digest: str) -> str:
    """One part of a round's plan, named by what is in it."""
    return f"{plan_of_round(round_number)}part-{first_lane}-{last_lane}-{digest}.parquet"


def earlier_plan_path(round_number: int, digest: str) -> str:
    """One part of a round's plan as earlier versions named it, without its lanes."""
    return f"{plan_of_round(round_number)}part-{digest}.parquet"


def claim_path(round_number: int, lane: int, sequence: int, number: int) -> str:
    """The claim of the execution number `number` (from 0) of a lane's batch."""
    return f"{CLAIMS}{round_number}/{lane}/{sequence}-{number}.json"


def journals_of(round_number: int, batch_id: str) -> str:
    """What the paths of all journals of a batch begin with."""
    return f"{JOURNALS}{round_number}/{batch_id}/"


def journal_path(round_number: int, batch_id: str, attempt: str) -> str:
    """The URLs that one attempt has in flight."""
    return f"{journals_of(round_number, batch_id)}{attempt}.json"


def quarantine_path(round_number: int, page_id: str) -> str:
    """What is needed to look at a quarantined page elsewhere."""
    return f"{QUARANTINE}{round_number}/{page_id}.json"


def links_path(round_number: int, digest: str) -> str:
    """What became of the links that were found in a round, named by what they were found in and followed by."""
    return f"{LINKS}{round_number}/{digest}.json"


def robots_of_host(host_hash: str) -> str:
    """The folder of what a host's robots.txt said; the newest is the last."""
    return f"robots/{host_hash}/"


def robots_path(host_hash: str, asked_at: float) -> str:
    """One answer of a host, by the time in seconds since 1970 at which it was asked."""
    return f"{robots_of_host(host_hash)}{int(asked_at * 1000):015d}.json"
