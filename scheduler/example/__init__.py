"""The example site: pages of our own, served on loopback, so that a first crawl needs nothing from outside."""
