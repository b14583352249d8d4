"""What is cabled: ports, links, hosts, roles, paths, and the plan that was meant."""
