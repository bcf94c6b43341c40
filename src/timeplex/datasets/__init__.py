"""Ready-made KBs: the four benchmarks, the sample that comes with the package, synthetic worlds."""
