"""Rows in files: tables, text, binary formats, memory maps, temporary files."""
