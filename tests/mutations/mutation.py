"""One mistake that a change of the code might make."""

from typing import NamedTuple


class Mutation(NamedTuple):
    """A text that occurs once in the source, what takes its place, and the name of a test that then fails.

    The test may be a function, a method as Class::name, or one case as name[case].
    """

    room: str
    old: str
    new: str
    test: str
