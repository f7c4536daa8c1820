"""A document reader as a guest of Forebay: a processor and an engine, found by their entry points."""
