"""From pairs to a bracket: losses rounded to a lattice, composed by FFT, read off, and tightened pass by
pass."""
