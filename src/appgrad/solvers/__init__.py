"""One algorithm, one file or folder."""
