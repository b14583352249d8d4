"""The shell: sockets, clocks and disk around the core."""
