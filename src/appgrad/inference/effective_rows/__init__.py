"""On how many rows each component rests."""
