"""What jobs announce: collectives, and the flows they expand to."""
