"""The commands for authors: a new package, and its examination. All of it works with the base install."""
