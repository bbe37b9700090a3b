"""What a fit may use of the machine: threads, memory, array types."""
