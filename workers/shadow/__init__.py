"""A second processor on a share of a model's requests: prepared again, compared, told; the first's is the answer."""
