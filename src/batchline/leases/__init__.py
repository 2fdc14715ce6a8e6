"""Lease managers: who may use which partition of a shared capacity, and until when."""

from batchline.leases.lease_manager import LeaseManager, Provisioned
from batchline.leases.opening import open_leases

__all__ = ["LeaseManager", "Provisioned", "open_leases"]
