"""Measurements that anybody can run again: ``make bench``. Medians and ratios of one run, side by side."""
