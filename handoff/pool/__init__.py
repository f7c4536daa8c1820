"""The feature pool: one file a node on tmpfs, mapped once by every process, written and read in place."""

from handoff.pool.blocks import Block, LiveViewError, forget_frames
from handoff.pool.owners import Owner, is_alive
from handoff.pool.pool import BlockInfo, Pool, PoolStats, StaleHandleError

__all__ = [
    "Block",
    "BlockInfo",
    "LiveViewError",
    "Owner",
    "Pool",
    "PoolStats",
    "StaleHandleError",
    "forget_frames",
    "is_alive",
]
