"""XE-NDCG with the γ that makes the bound of Bruch (2021) tightest at the current scores.

The bound is a mean of log ρ with weights between 2^y − 1 and 2^y, which is largest when every document above the mean
has its largest weight (γ = 0) and every one below it its smallest (γ = 1). Since γ minimises the loss, the gradient is
ρ − φ here too.
"""

from dataclasses import dataclass, replace

import numpy as np

from rankwise import Stream
from rankwise.base.compiling import kernel
from rankwise.objectives import XENDCG, Derivatives, Prepared
from rankwise.objectives.wrappers import PreparedKernel, Values, normalise


def tight(gains: PreparedKernel) -> "PreparedTight":
    """Return cross entropy with the tightest γ, from that with gains to which 1 − γ is added."""
    inner = replace(gains.with_arguments(target=XENDCG(gamma="one").target), streams=None)  # one that is not drawn
    return PreparedTight(lists=gains.lists, inner=inner)


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedTight(Prepared):
    """Cross entropy with a target distribution that depends on the scores."""

    inner: PreparedKernel

    def fill(self, scores: Values, stream: Stream | None, out: Derivatives) -> None:
        """Compute the target distribution, and the loss with it."""
        lists, arguments, masses = self.lists, self.inner.arguments, self.lists.empty_documents()
        device_kernel = "rankwise.wings.lab.bounding.triton:tighten"
        lists.run(_tighten, device_kernel, scores, (arguments.masses, arguments.units), None, (masses,))
        self.inner.with_arguments(masses=lists.as_argument(masses)).fill(scores, stream, out)


@kernel
def _tighten(first, last, offsets, scores, gains, units, masses):  # type: ignore[no-untyped-def]
    """Fill the target distribution of each list."""
    for q in range(first, last):
        mine = slice(offsets[q], offsets[q + 1])
        masses[mine] = gains[mine]
        if units[q] > 0.0:
            _add_mass(scores[mine], units[q], masses[mine])
            normalise(masses[mine])


@kernel
def _add_mass(scores, scale, phi):  # type: ignore[no-untyped-def]
    """Add 1 − γ to gains for the γ that makes the weighted mean of the scores largest.

    Dinkelbach's iteration: every document above the mean has its largest weight, which raises the mean, until nothing
    changes after a few steps. Without gains the best document alone has weight.
    """
    n = scores.size
    best = 0
    gain, weighted_sum = 0.0, 0.0
    for i in range(n):
        if scores[i] > scores[best]:
            best = i
    reference = scores[best]
    for i in range(n):
        gain += phi[i]
        weighted_sum += phi[i] * (scores[i] - reference)
    mean = weighted_sum / gain if gain > 0.0 else -np.inf
    if gain == 0.0:
        phi[best] += scale
        return
    while True:
        extra, extra_sum = 0.0, 0.0
        for i in range(n):
            if scores[i] - reference > mean:
                extra += scale
                extra_sum += scale * (scores[i] - reference)
        better = (weighted_sum + extra_sum) / (gain + extra)
        if better <= mean:
            break
        mean = better
    for i in range(n):
        if scores[i] - reference > mean:
            phi[i] += scale
