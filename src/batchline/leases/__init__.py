"""Lease managers: who may use which partition of a shared capacity, and until when."""
