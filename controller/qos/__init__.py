"""Traffic classes, their marks and their queues."""
