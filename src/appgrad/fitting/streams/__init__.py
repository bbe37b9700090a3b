"""Rows that keep coming: added up where sums fit into memory, taken as steps where they do not."""
