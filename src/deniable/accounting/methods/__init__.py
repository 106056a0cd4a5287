"""One theorem a file: what a loss costs by it. Each refuses the nodes it has no proof for; `choose` takes the
best."""
