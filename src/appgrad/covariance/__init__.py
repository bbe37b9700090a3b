"""What a pass gathers, operators on thin matrices, and small dense mathematics."""
