"""Commands: read arguments, call one function, print."""
