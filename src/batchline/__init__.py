"""Batchline turns timestamped measurements into deterministic batches and delivers them on time.

Every stage stands alone; the names below are the library's public face.
"""

from batchline.core.ack import AckOutcome, ItemError, SealOutcome
from batchline.core.batch import Batch, CloseReason, Verdict
from batchline.core.batch_rules import BatchRules
from batchline.core.batcher import EventTimeBatcher
from batchline.core.expiry_rules import ExpiryRules
from batchline.core.fanout import FanoutStatus
from batchline.core.item_group import ItemGroup
from batchline.core.measurement import Measurement
from batchline.core.pack_rules import PackRules
from batchline.core.packer import pack
from batchline.core.parcel import Packed, Parcel
from batchline.errors import BatchlineError
from batchline.runtime.estimated_tracker import EstimatedTracker
from batchline.runtime.tracker import Tracker
from batchline.stores import Store, open_store
from batchline.stores.redis.estimates import EstimateStore

__all__ = [
    "AckOutcome",
    "Batch",
    "BatchRules",
    "BatchlineError",
    "CloseReason",
    "EstimateStore",
    "EstimatedTracker",
    "EventTimeBatcher",
    "ExpiryRules",
    "FanoutStatus",
    "ItemError",
    "ItemGroup",
    "Measurement",
    "PackRules",
    "Packed",
    "Parcel",
    "SealOutcome",
    "Store",
    "Tracker",
    "Verdict",
    "open_store",
    "pack",
]

__version__ = "0.1.0"
