"""Two-sided block LOBPCG: the iteration, and how it is set up."""
