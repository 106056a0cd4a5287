"""People who have rows in several silos: of each, no more silos count than declared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence

from deniable.federated.silos.settings import SiloRows
from deniable.learn.sgd.data import rows as containers
from deniable.learn.sgd.data.users_names import usable_name


def keep_declared_silos(silos: Sequence[SiloRows], most: int) -> list[SiloRows]:
    """Of each person the first `most` silos that hold rows of hers; her rows in others become nobody's.

    Which silos those are depends on her own rows alone, so a person more or less does not change what counts
    of anybody else. This needs all ids in one place: between real silos the number is a promise.
    """
    silo_counts: Counter[Hashable] = Counter()
    copies = []
    for silo in silos:
        names = [usable_name(name) for name in containers.to_list(silo.ids)]
        beyond = {name for name in set(names) if silo_counts[name] >= most}
        silo_counts.update(set(names))
        copies.append(SiloRows(silo.x, silo.y, [None if name in beyond else name for name in names]))
    return copies
