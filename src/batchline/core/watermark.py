"""How far a stream has come, in receive time: what no row that is still on its way can lie before."""

from collections.abc import Mapping

__all__ = ["watermark_us"]


def watermark_us(highest: Mapping[str, int], skew_us: int, idle_us: int | None) -> int | None:
    """The smallest, over the source's partitions, of the largest receive time seen, less the skew; None before any.

    A partition that is more than `idle` behind the foremost one has fallen silent, and is left out.
    """
    if not highest:
        return None
    foremost = max(highest.values())
    awake = [at for at in highest.values() if idle_us is None or foremost - at <= idle_us]
    return min(awake) - skew_us
