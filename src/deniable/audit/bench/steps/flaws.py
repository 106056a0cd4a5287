"""What can be wrong with a step of private training."""

from __future__ import annotations

from enum import StrEnum


class Flaw(StrEnum):
    """What can be wrong with a step. All but NONE and those called sound break what it claims."""

    NONE = "sound"
    LATE_MOMENTUM = "sound: momentum after the noise"
    NORMALISED = "sound: every gradient scaled to the clip"
    HALVED_NOISE = "halved noise"
    NO_CLIPPING = "no clipping"
    WRONG_LOT = "divided by the batch that was drawn"
    NOISE_PER_DATASET = "noise divided by the data set"
    LAYERS_EACH = "each layer clipped to the whole clip"
    LARGEST_NORM = "clipped in the largest coordinate"
    ONE_UNCLIPPED = "one parameter not clipped"
    SUMMED_MOMENTUM = "momentum of the sum before the noise"
    ROW_MOMENTUM = "momentum of the mean added to every gradient before clipping"
    HALF_REPEATED = "noise repeated in half of the coordinates"
    TEN_STEPS = "noise drawn once for ten steps"
    MICROBATCH_MEANS = "means of microbatches clipped"
    MICROBATCH_SUMS = "sums of microbatches clipped"
    # Of these nobody was told before.
    BATCH_CLIPPED = "the whole sum clipped"
    NOISE_THEN_CLIP = "noise before clipping the sum"
    FIXED_SEED = "the same noise in every step"
    BARE_LAYER = "one layer without noise"
    TEN_COORDINATES = "noise drawn once for ten coordinates"
    LARGEST_CLIP = "clipped to the largest norm of the batch"
    CLIP_FORGOTTEN = "noise not scaled by the clip"
    TWICE = "the first row added twice"
    ONE_NORM = "clipped to twice the clip where the largest coordinate is small"
    DECAYING = "half of the noise in every second step"
    # Nor of these, for which the family had to grow.
    LAST_TWICE = "the last row added twice"
    BARE_NORM = "the norm taken without the last layer"
    ONE_LOUDER = "one coordinate counts three times"
    CUT_NOISE = "noise cut off at two deviations"
    SOMETIMES = "no noise in one step of twenty"
    DIFFERENCES = "noise that the next step takes back"
    SHOWN_AGAIN = "the first row comes again eight steps later"
    CLIP_BY_BATCH = "a clip that follows the share of short gradients, without noise"
    STALE_NORMS = "clipped by the norms of the batch before"
    FIRST_OF_MEAN = "the mean clipped, not the rows"
    SMALLER_NOISE = "noise divided by the root of the batch"
    # Nor of these, for which it had to grow again.
    LATE_CLIP = "clipped only from twice the clip on"
    MEDIAN_CLIP = "clipped to the median length of the batch"
    SORTED_PAIRS = "rows sorted by length, sums of two clipped"
    EACH_ROW_DECAYS = "weight decay for every row that was drawn"
    RAW_SCALE = "divided by the root of a second moment without noise"
    TWENTY_LATER = "the sum comes again twenty steps later"
    BALANCED = "noise of twenty steps that adds up to nothing"
    WARM_UP = "no noise in the first forty steps"
    # Nor of these.
    TIED_WEIGHTS = "halves of a row measured apart, and added up"
    EMPTY_SKIPPED = "no noise where the batch is empty"
    LATE_SIGN = "sound: the sign of the noisy sum"
    LONGEST_LEFT_OUT = "sound: the longest gradient left out"
