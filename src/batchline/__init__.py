"""Batchline turns timestamped measurements into deterministic batches and delivers them on time.

Every stage stands alone; the names below are the library's public face.
"""

from batchline.core.ack import AckOutcome, ItemError, SealOutcome
from batchline.core.adaptive import Adaptive
from batchline.core.attendance import BrokerHealth, Subscription
from batchline.core.batch import Batch, CloseReason, Verdict
from batchline.core.batch_rules import BatchRules
from batchline.core.batcher import EventTimeBatcher
from batchline.core.consignment import Consignment
from batchline.core.expiry_rules import ExpiryRules
from batchline.core.fanout import FanoutStatus
from batchline.core.future_load import Bin, Counts, Load
from batchline.core.item_group import ItemGroup
from batchline.core.later import Later
from batchline.core.measurement import Measurement
from batchline.core.message import (
    Attempt,
    Lease,
    LeasedMessage,
    LeasesPage,
    Message,
    MessagePage,
    NewMessage,
    Outcome,
    Upcoming,
    lease_text,
    read_lease,
)
from batchline.core.on_complete import OnComplete
from batchline.core.operation import Operation, Watcher
from batchline.core.pack_rules import PackRules
from batchline.core.packer import pack
from batchline.core.parcel import Packed, Parcel
from batchline.core.pipeline import Capacity, Pipeline, Publication, SinkAddress, Source, Work
from batchline.core.ramp import Ramp
from batchline.core.retry import RetryRules
from batchline.core.topic import Topic
from batchline.core.trouble import Trouble
from batchline.errors import BatchlineError, Throttled
from batchline.leases import LeaseManager, open_leases
from batchline.runtime.beat import Beat
from batchline.runtime.consumer import Consumer
from batchline.runtime.dispatcher import Dispatcher, Remains
from batchline.runtime.estimated_tracker import EstimatedTracker
from batchline.runtime.expire import Expire
from batchline.runtime.provisioned_resource import ProvisionedResource
from batchline.runtime.prune import Prune
from batchline.runtime.publisher import Publisher
from batchline.runtime.rescue import Rescue
from batchline.runtime.services import Services
from batchline.runtime.shared_resource import SharedResource
from batchline.runtime.timeline import Timeline
from batchline.runtime.tracker import Tracker
from batchline.runtime.worker import Worker
from batchline.sinks import Sink, open_sink
from batchline.stores import Store, open_store
from batchline.stores.redis.estimates import EstimateStore

__all__ = [
    "AckOutcome",
    "Adaptive",
    "Attempt",
    "Batch",
    "BatchRules",
    "BatchlineError",
    "Beat",
    "Bin",
    "BrokerHealth",
    "Capacity",
    "CloseReason",
    "Consignment",
    "Consumer",
    "Counts",
    "Dispatcher",
    "EstimateStore",
    "EstimatedTracker",
    "EventTimeBatcher",
    "Expire",
    "ExpiryRules",
    "FanoutStatus",
    "ItemError",
    "ItemGroup",
    "Later",
    "Lease",
    "LeaseManager",
    "LeasedMessage",
    "LeasesPage",
    "Load",
    "Measurement",
    "Message",
    "MessagePage",
    "NewMessage",
    "OnComplete",
    "Operation",
    "Outcome",
    "PackRules",
    "Packed",
    "Parcel",
    "Pipeline",
    "ProvisionedResource",
    "Prune",
    "Publication",
    "Publisher",
    "Ramp",
    "Remains",
    "Rescue",
    "RetryRules",
    "SealOutcome",
    "Services",
    "SharedResource",
    "Sink",
    "SinkAddress",
    "Source",
    "Store",
    "Subscription",
    "Throttled",
    "Timeline",
    "Topic",
    "Tracker",
    "Trouble",
    "Upcoming",
    "Verdict",
    "Watcher",
    "Work",
    "Worker",
    "lease_text",
    "open_leases",
    "open_sink",
    "open_store",
    "pack",
    "read_lease",
]

__version__ = "0.1.0"
