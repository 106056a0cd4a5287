"""Telling the outputs of two neighbours apart: what is learnt here is a proposal, certified elsewhere.

classify    classifiers on views of the outputs
tables      log-ratios of counts, shrunk where counts say little
support     outputs that only one neighbour gives
thresholds  which scores to guess from
"""
