"""The picture of a page: where on it everything lies, what must be covered, what is drawn on it."""
