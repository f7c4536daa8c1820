"""The feature pool: one file a node on tmpfs, mapped once by every process, written and read in place."""

from handoff.pool.blocks import Block, LiveViewError, forget_frames
from handoff.pool.info import BlockInfo, PoolStats
from handoff.pool.line import Waiter
from handoff.pool.owners import Owner, is_alive, is_at
from handoff.pool.placement import Placement
from handoff.pool.pool import Pool, StaleHandleError
from handoff.pool.store import EntryInfo, FeatureCache, Flight, Found, Pending, Sought
from handoff.pool.table import HoldState

__all__ = [
    "Block",
    "BlockInfo",
    "EntryInfo",
    "FeatureCache",
    "Flight",
    "Found",
    "HoldState",
    "LiveViewError",
    "Owner",
    "Pending",
    "Placement",
    "Pool",
    "PoolStats",
    "Sought",
    "StaleHandleError",
    "Waiter",
    "forget_frames",
    "is_alive",
    "is_at",
]
