"""Finding, launching and driving a headless Chromium."""
