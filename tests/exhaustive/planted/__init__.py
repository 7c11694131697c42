"""Faults to put in, each a small subclass of the part it breaks."""
