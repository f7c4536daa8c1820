"""Fetching media from where a caller says they are: guarded, bounded, and never waited for without end."""
