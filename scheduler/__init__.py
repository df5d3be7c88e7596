"""What to capture, when and on what engine; the command line; closing a crawl."""
