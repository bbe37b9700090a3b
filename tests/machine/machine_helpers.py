"""BLAS with four threads, whatever the machine has, for tests of its limits."""

from contextlib import contextmanager

from appgrad.machine import threads as module

BEFORE = 4


@contextmanager
def four_threads():
    """Four threads, and afterwards what there was; yields a function that returns what there is."""
    libraries = module._libraries()
    before = [library.num_threads for library in libraries]
    for library in libraries:
        module._set_threads(library, BEFORE)
    try:
        yield lambda: {library.num_threads for library in libraries}
    finally:
        for library, number in zip(libraries, before, strict=True):
            module._set_threads(library, number)
