"""The app is Flower's to load: without Flower it cannot be imported."""

collect_ignore = ["app"]
