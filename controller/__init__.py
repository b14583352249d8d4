"""Heddle: an SDN controller for AI leaf-spine fabrics. The brain; it imports neither Ryu nor Mininet."""
