"""Resources of the machine: threads, memory, array types."""
