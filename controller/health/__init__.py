"""Counters to rates."""
