"""Remarks on fits whose correlations show nothing."""

import numpy as np

from appgrad import CCA
from appgrad.datasets import planted
from appgrad.fitting.remarks import trivial


def test_correlations_are_trivial_only_near_one():
    p = planted(200, 5, 4, [0.9, 0.6], random_state=0)
    solution = CCA(2).fit(p.X, p.y)._fitted.fit.solution
    near, far = (solution._replace(correlations=np.array([r, 0.1]), ranks=(6, 6)) for r in (0.995, 0.98))
    assert trivial(10, 8, 8, near, "functions fit rows", "Use a larger ridge")
    assert not trivial(10, 8, 8, far, "functions fit rows", "Use a larger ridge")
    assert not trivial(13, 8, 8, near, "functions fit rows", "Use a larger ridge")
