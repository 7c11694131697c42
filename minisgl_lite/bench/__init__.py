"""Measures the engine against what people would use instead (extra ``bench``).

Contestants take turns within each round, so that what else the machine does hits all of them; what
is reported are medians over the rounds, and ratios.
"""
