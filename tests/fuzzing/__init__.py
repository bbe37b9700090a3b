"""Random problems, an oracle of 100 digits, and the judgement of fits by it, for `tests/fuzz.py`."""
