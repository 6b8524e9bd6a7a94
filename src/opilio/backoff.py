"""Exponential backoff and jitter."""

from datetime import timedelta


def doubling(base: timedelta, attempt: int, ceiling: timedelta) -> timedelta:
    """5 → 10 → 20 → 40 …: the wait before attempt `attempt` (1 is the first), never above `ceiling`."""
    if attempt < 1:
        raise ValueError("attempts are counted from 1")
    # The bound keeps timedelta from overflowing; 2 ** 40 of any base is above every ceiling.
    factor = 1 << min(attempt - 1, 40)
    if base >= ceiling / factor:
        return ceiling
    return base * factor


def jittered(wait: timedelta, share: float) -> timedelta:
    """Adds a share of `wait`, drawn by the caller."""
    # By seconds: a timedelta times a float is computed with fractions of long integers.
    return wait + timedelta(seconds=wait.total_seconds() * share)
