"""Engines that Forebay ships. A model package brings its own through the entry points ``forebay.engines``."""
