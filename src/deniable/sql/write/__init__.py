"""From a checked tree to statements that never fail and in which one unit counts for a bounded amount."""
