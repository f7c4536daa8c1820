"""One request through a processor on a terminal: the worker's decoders, no Redis, and pictures of what came out."""
