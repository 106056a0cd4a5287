"""How far a classifier's answer certainly holds: python examples/smoothing.py"""

import numpy as np

from deniable.smooth import Gaussian, Smoothed


def classifier(points):
    return (points[:, 0] > 0).astype(int)


smoothed = Smoothed(classifier, Gaussian(0.5), classes=2)
for x in (0.2, 1.0, 3.0):
    answer = smoothed.certify(np.array([x, 0.0]))
    print(f"at {x}: class {answer.label}, certain within {answer.radius:.3f} (the true distance is {x})")
