"""The store: Parquet files, exactly-once commit, and readers that start from markers."""

from workers.store.ahead import ahead
from workers.store.commit import CommitResult, commit_batch, read_marker
from workers.store.crawl_file import CrawlFile, check_crawl, open_crawl
from workers.store.folder import FolderStore
from workers.store.lock import locked
from workers.store.objects import ObjectStore
from workers.store.opening import open_store
from workers.store.parquet import read_parquet, write_parquet
from workers.store.payloads import decode_capture, encode_capture
from workers.store.plan import (
    PlannedColumns,
    StoredPlan,
    planned_pages,
    planned_rounds,
    read_plan,
    store_plan,
    tries_of,
)
from workers.store.reading import (
    captured_documents,
    check_screenshot,
    committed_batch_ids,
    committed_rounds,
    each_marker,
    find_pages,
    has_capture,
    latest_listings,
    load_capture,
    markers,
    outcomes_by_round,
    outline_map_of,
    read_table,
    screenshot_of,
    selector_map_of,
    stages_of,
    verify_markers,
)
from workers.store.rows import table_of

__all__ = [
    "CommitResult",
    "CrawlFile",
    "FolderStore",
    "ObjectStore",
    "PlannedColumns",
    "StoredPlan",
    "ahead",
    "captured_documents",
    "check_crawl",
    "check_screenshot",
    "commit_batch",
    "committed_batch_ids",
    "committed_rounds",
    "decode_capture",
    "each_marker",
    "encode_capture",
    "find_pages",
    "has_capture",
    "latest_listings",
    "load_capture",
    "locked",
    "markers",
    "open_crawl",
    "open_store",
    "outcomes_by_round",
    "outline_map_of",
    "planned_pages",
    "planned_rounds",
    "read_marker",
    "read_parquet",
    "read_plan",
    "read_table",
    "screenshot_of",
    "selector_map_of",
    "stages_of",
    "store_plan",
    "table_of",
    "tries_of",
    "verify_markers",
    "write_parquet",
]
