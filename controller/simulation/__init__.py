"""Model switches for deterministic tests."""
