"""Batchline turns timestamped measurements into deterministic batches and delivers them on time.

Every stage stands alone; the names below are the library's public face.
"""

from batchline.core.batch import Batch, CloseReason, Verdict
from batchline.core.batch_rules import BatchRules
from batchline.core.batcher import EventTimeBatcher
from batchline.core.measurement import Measurement
from batchline.core.pack_rules import PackRules
from batchline.core.packer import pack
from batchline.core.parcel import Packed, Parcel
from batchline.errors import BatchlineError

__all__ = [
    "Batch",
    "BatchRules",
    "BatchlineError",
    "CloseReason",
    "EventTimeBatcher",
    "Measurement",
    "PackRules",
    "Packed",
    "Parcel",
    "Verdict",
    "pack",
]

__version__ = "0.1.0"
