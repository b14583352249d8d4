"""What each switch should hold, and how it gets there."""
