"""Attacks on answers: counts over chosen sets, and published tables.

reconstruct  bits of everybody from counts over random sets (Dinur, Nissim)
solve        from noisy counts back to bits
difference   one person's bit from counts about many; averaging noise away
sticky       noise per condition, and the arithmetic query that tricks it
baselines    curators who mean well
tables       people from published counts, medians and means
"""
