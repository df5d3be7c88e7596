"""A stored page is found, and made into its texts again, for the verbs that look at one page."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from schemas.capture import Capture
from schemas.errors import PageUnreadable, SeedError, SettingError, StoreDamaged, StoreError
from schemas.settings import CrawlSettings, ListingSettings, OutlineSettings
from workers.merge import PayloadError, merge
from workers.serialize.indices import FinalTree, final_tree
from workers.serialize.options import ListingOptions
from workers.serialize.outline import Outline, serialize_outline
from workers.serialize.outline_options import OutlineOptions
from workers.serialize.outline_selectors import SelectorError
from workers.store import ObjectStore, find_pages, has_capture, load_capture, open_crawl
from workers.store.opening import open_store


@dataclass(frozen=True, slots=True)
class StoredPage:
    """One page of a store: its row of `listings`, and the settings that its listing and outline were made with."""

    store: ObjectStore
    row: dict[str, Any]
    settings: ListingSettings
    outline_settings: OutlineSettings

    def has_capture_only(self, form: str) -> bool:
        """Whether a form was not stored, as by an older version, but can be made from the stored capture."""
        return self.row[form] is None and has_capture(self.store, self.row["page_id"])

    def outline(self, focus: str | None = None, ignore: tuple[str, ...] = ()) -> Outline:
        """The page's outline, or a part of it, made from its stored capture.

        Raises SettingError where a selector leads nowhere, and as `final` does.
        """
        options = OutlineOptions(focus=focus, ignore=ignore, max_xpath_chars=self.outline_settings.max_xpath_chars)
        with self._made() as capture:
            try:
                return serialize_outline(capture, options)
            except SelectorError as error:
                raise SettingError(
                    f"The {error} in {self.row['url_key']}; pagestate show --form outline shows what there is."
                ) from error

    def final(self) -> FinalTree:
        """The page's final tree, made from its stored capture. Raises StoreError, StoreDamaged, PageUnreadable."""
        with self._made() as capture:
            return final_tree(merge(capture), ListingOptions.of(self.settings))

    def both(self) -> tuple[FinalTree, Outline]:
        """The page's final tree and outline; raises as `final` does."""
        with self._made() as capture:
            tree = merge(capture, outlined=True)
            return final_tree(tree, ListingOptions.of(self.settings)), serialize_outline(capture, tree=tree)

    @contextmanager
    def _made(self) -> Iterator[Capture]:
        """The stored capture, for something that is made from it."""
        url = self.row["url_key"]
        try:
            capture = load_capture(self.store, self.row["page_id"])
        except StoreDamaged:
            raise
        except StoreError as error:
            raise StoreError(
                f"The store {self.store.where} holds no capture of {url} ({self.row['outcome']}), and this form is made"
                " from one; capture the page without --no-captures."
            ) from error
        try:
            yield capture
        except PayloadError as error:
            raise PageUnreadable(f"The capture of {url} makes no sense ({error}); capture the page again.") from error


def stored_page(store_path: str, url: str, profile: str | None = None) -> StoredPage:
    """The page of a URL or a page id, as of its last round; `profile` None takes the first of the crawl's that has it.

    Raises SeedError where the store has none.
    """
    store = open_store(store_path, reading=True)
    crawl = open_crawl(store, None, None)
    pages = find_pages(store, url)
    if not pages:
        raise SeedError(
            f"The store {store_path} has no page {url}; pagestate status --store {store_path} tells what it has."
        )
    settings = CrawlSettings.from_json(crawl.settings)
    names = [one.name for one in settings.profiles]
    if profile is not None and profile not in names:
        raise SeedError(f"The crawl in {store_path} has no profile {profile}; it has {', '.join(names)}.")
    place = {name: number for number, name in enumerate([profile] if profile is not None else names)}
    of_profile = [page for page in pages if page["profile"] in place]
    if not of_profile:
        raise SeedError(f"The store {store_path} has no page {url} under the profile {profile}.")
    first = min(of_profile, key=lambda page: (-page["round"], place[page["profile"]]))
    return StoredPage(store, first, settings.listing, settings.outline)
