"""Per-example gradients as products that are never written out.

terms        what per-example gradients are made of; their norms and weighted sums
tape, taps   layers that write terms during backward
cover        calls of torch functions that taps cover; `bare` parameters, `held` gradients, `sequences` with
             attention, `owners` of positions, `shared` tensors, the `order` of examples
chain        models that are chains of layers, run by hand
"""
