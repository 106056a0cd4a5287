"""From released numbers to the answer, with an interval for every number."""
