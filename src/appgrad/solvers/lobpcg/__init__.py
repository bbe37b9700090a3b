"""Two-sided block LOBPCG: the iteration, and the small dense algebra of its Rayleigh-Ritz step."""
