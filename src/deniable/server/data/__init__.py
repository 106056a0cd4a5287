"""The data sets of a service: what an owner declares, where data may lie, and the curators that answer."""
