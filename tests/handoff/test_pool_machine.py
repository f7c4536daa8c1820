"""The allocator against a model: whatever is allocated and freed in whichever order, no overlap and no loss."""

import tempfile
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, multiple, rule
from hypothesis.stateful import run_state_machine_as_test as run

from forebay import DType
from forebay.ticket import ArrayAt
from handoff.pool import Pool
from handoff.pool.table import ALIGNMENT

SIZE = 16 * 1024


class Allocator(RuleBasedStateMachine):
    """Blocks come and go; the model knows each one's bytes by heart."""

    blocks = Bundle("blocks")
    gone = Bundle("gone")

    def __init__(self):
        super().__init__()
        self.folder = tempfile.TemporaryDirectory(prefix="forebay-test-", dir="/dev/shm")
        path = Path(self.folder.name) / "pool"
        Pool.create(path, SIZE)
        self.pool = Pool(path, "worker", writable=True)
        self.taken = {}  # handle -> the byte that fills it
        self.number = 0

    def gaps(self):
        """Runs of free bytes, first to last."""
        at, gaps = 0, []
        for handle in sorted(self.taken, key=lambda handle: handle.offset):
            if handle.offset > at:
                gaps.append((at, handle.offset - at))
            at = handle.offset + handle.length
        return [*gaps, (at, SIZE - at)] if at < SIZE else gaps

    @rule(target=blocks, length=st.integers(1, SIZE // 2))
    def allocate(self, length):
        size = -(-length // ALIGNMENT) * ALIGNMENT
        fitting = [offset for offset, room in self.gaps() if room >= size]

        block = self.pool.allocate(length, f"r{self.number}", 1)

        if not fitting:
            assert block is None
            return multiple()
        assert (block.handle.offset, block.handle.length) == (fitting[0], size)
        self.number += 1
        array, _ = block.carve((size,), DType.UINT8)
        array[:] = self.number % 256
        self.taken[block.handle] = self.number % 256
        return block.handle

    @rule(target=gone, handle=consumes(blocks), parked=st.booleans())
    def free(self, handle, parked):
        if parked:
            self.pool.park(handle)
        assert self.pool.free(handle) is True
        del self.taken[handle]
        return handle

    @rule(handle=gone)
    def free_again(self, handle):
        assert self.pool.free(handle) is False

    @invariant()
    def the_table_says_what_the_model_says(self):
        assert {info.handle for info in self.pool.blocks()} == set(self.taken)
        assert self.pool.stats().used_bytes == sum(handle.length for handle in self.taken)

    @invariant()
    def nobody_wrote_into_anothers_block(self):
        for handle, byte in self.taken.items():
            block = self.pool._block(handle)
            seen = block.array(ArrayAt(0, 0, DType.UINT8, (handle.length,)))
            assert (seen == byte).all()

    def teardown(self):
        self.pool.close()
        self.folder.cleanup()


def test_the_allocator_neither_loses_nor_shares_a_byte():
    """First fit, neighbours joined, every byte accounted for."""
    bounded = settings(
        max_examples=30,
        stateful_step_count=40,
        deadline=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
        database=None,
    )

    run(Allocator, settings=bounded)
