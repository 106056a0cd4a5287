"""How far a smoothed classifier's answer certainly holds: noise on inputs, votes, the radius, and its
certificate."""

from deniable.accounting.radius.certified_radius import (
    by_definition,
    is_safe,
    lecture,
    overtaken,
    radii,
    radius,
)

__all__ = ["by_definition", "is_safe", "lecture", "overtaken", "radii", "radius"]
