"""How far to trust a solution."""
