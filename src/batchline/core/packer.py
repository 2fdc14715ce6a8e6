"""Stage 2: the packer.

It fills parcels, each one request to the receiver, without tearing apart what belongs together and without sending
anything before what is older. The parcels are a function of the rules and of the measurements, not of their order.
"""

from collections.abc import Iterable

from batchline.core.batch import Batch
from batchline.core.group import groups_of
from batchline.core.load import Limits, Load
from batchline.core.measurement import Measurement
from batchline.core.pack_rules import PackRules
from batchline.core.parcel import Packed, Parcel, piece_id
from batchline.core.subject_order import in_subject_order
from batchline.core.time_order import in_time_order
from batchline.errors import InvalidRules

__all__ = ["pack"]


def pack(measurements: Iterable[Measurement] | Iterable[Batch], rules: PackRules | None = None) -> Packed:
    """The parcels, numbered from 1 in the order in which they are to be sent; `.rejected` has what fits in none.

    It takes measurements in any order; with `together="batch"` batches, as `EventTimeBatcher.closed()` gives them.
    """
    if rules is not None and not isinstance(rules, PackRules):
        raise InvalidRules(f"expected PackRules, got {rules!r} ({type(rules).__name__})")
    rules = rules or PackRules()
    groups, rejected = groups_of(measurements, rules)
    limits = Limits.of(rules)
    loads = in_time_order(groups, limits) if rules.order == "time" else in_subject_order(groups, limits)
    return Packed((_parcel(load, number) for number, load in enumerate(loads, 1)), rejected)


def _parcel(load: Load, number: int) -> Parcel:
    pieces = sorted(load.pieces, key=lambda piece: (piece.group.time_us, piece.group.subject, piece.group.id))
    measurements = tuple(member for piece in pieces for member in piece.group.members[piece.start : piece.end])
    subjects = tuple(sorted({piece.group.subject for piece in pieces}))
    return Parcel(piece_id(pieces[0].group.id, pieces[0].number), number, subjects, measurements)
