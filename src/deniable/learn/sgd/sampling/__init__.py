"""Which rows a step sees: how long a run is (`lots`), coins, caps and passes (`draws`), data that
cannot be sampled (`fixed_lots`)."""
