# SPDX-License-Identifier: Apache-2.0
"""What a partly disturbed sample still says of a quantile: the bounds of Horowitz and Manski (1995).

Of N samples K were disturbed, nobody knows which, and the others were not. Whatever the K are, the p-quantile of the
U = N - K others lies between the sample's values of rank ceil(pU) and ceil(pU) + K. Nothing is assumed of how a
disturbance moves a value: it may be slower or faster for it.
"""

import math

#: Pairs that a comparison by bounds needs: rarely is a machine slow for one side alone in all of so many.
MIN_BOUNDED = 5
#: A stall is felt for about as long again as it lasts: what had to wait is worked off behind it.
AFTERMATH = 2.0
#: At least a fifth of what a machine takes is recorded.
_SEEN = 0.2
#: Up to this share a trial is disturbed a little: with what was not seen, for half of its time.
LITTLE = 0.5 * _SEEN


def contaminated_share(*away: float) -> float:
    """Share of a trial that the machine may have disturbed, from the shares of time that it was seen to take."""
    return min(1.0, AFTERMATH * sum(away))


def away(share: float | None) -> float:
    """The share of time that a contaminated share comes from."""
    return (share or 0.0) / AFTERMATH


def contaminated(count: int, share: float) -> int:
    """How many of `count` samples a share is, rounded up; at least one sample is taken to be undisturbed."""
    return min(math.ceil(share * count - 1e-9), count - 1)


def ranks(count: int, quantile: float, share: float) -> tuple[int, int]:
    """Lowest and highest rank, from 1 on, between which the undisturbed quantile lies. `count` of at least 1."""
    disturbed = contaminated(count, share)
    low = max(1, math.ceil(quantile * (count - disturbed) - 1e-6))  # 99.9 % of 1000 is 999, not 999.0000000000001
    return low, low + disturbed


def unseen(share: float) -> float:
    """How much slower, as a ratio, a trial may have been for what nothing recorded: at most twice."""
    return 1 / (1 - min(share, LITTLE) / _SEEN)


def rate_ends(rate: float, share: float) -> tuple[float, float]:
    """Of a rate counted over a trial of which a share was disturbed, and then forwarded nothing or as much."""
    return rate, rate / (1 - share) if share < 1 else math.inf
