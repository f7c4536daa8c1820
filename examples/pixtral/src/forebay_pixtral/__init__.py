"""Pixtral as a guest of Forebay: a processor that asks Mistral's own library, found by its entry point."""
