"""From parameters to a finished fit: choose a solver, run it, stream, checkpoint."""
