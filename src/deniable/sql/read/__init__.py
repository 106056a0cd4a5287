"""From an analyst's text and the schema to a checked tree; everything refused is refused
here, before any data."""
