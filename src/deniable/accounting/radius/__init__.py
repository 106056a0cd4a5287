"""How far a smoothed classifier's answer certainly holds: noise on inputs, votes, the radius, and its
certificate."""

from deniable.accounting.radius.certified_radius import (
    by_definition,
    lecture,
    overtaken,
    radii,
    radius,
    safe,
)

__all__ = ["by_definition", "lecture", "overtaken", "radii", "radius", "safe"]
