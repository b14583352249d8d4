"""The heddle command."""
