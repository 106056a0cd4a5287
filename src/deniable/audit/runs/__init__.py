"""Running a target on two neighbours, many times.

target        what can be audited, brought to one shape
pairs         neighbours: given, or patterns that break mechanisms in the literature
source        labelled samples of a pair, by a fair coin or coupled
worker        what runs a target, here or as the whole program of another process
processes     those other processes
carry         whether a target can be built anew there, and in which form
restart       a target that is started anew: does it say the same again?
generator     the generator that a target gets
independence  whether runs are independent of one another
"""
