"""Reports: the summary of a model as table, JSON, plot, HTML."""
