"""``forebay pool``: what lies in a node's shared memory, and what of it belongs to the dead."""

from launch.pool.command import pool

__all__ = ["pool"]
