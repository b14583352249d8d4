"""Ryu applications."""
