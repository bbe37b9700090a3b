"""How large blocks of rows are."""

from __future__ import annotations

from ..machine.memory import budget

# A block this large amortises the overhead of a call and still leaves a small machine its memory.
BLOCK_BYTES = 32 * 2**20
# Column index and value of one stored entry of a sparse block.
ENTRY_BYTES = 12
# Entries of a sparse block for every column: below, partial sums cost as much as the products
# (docs/decisions/0001).
COALESCED = 8
# Entries of a sparse block at least: fewer are multiplied in less time than it takes to start a thread.
SPARSE_BLOCK = 10**5


def block_count(n: int, row_bytes: float) -> int:
    """Blocks that n rows of so many bytes are cut into: none is larger than memory allows."""
    return -(-n // max(1, int(min(BLOCK_BYTES, budget()) / max(row_bytes, 1.0))))


def least_entries(columns: int) -> int:
    """Entries of a sparse block at least: more than its dense partial sums have rows."""
    return max(COALESCED * columns, SPARSE_BLOCK)
