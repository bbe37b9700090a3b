"""What people read: a summary of a model as table, JSON, plot, HTML."""
