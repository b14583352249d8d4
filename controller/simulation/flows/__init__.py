"""The flow-level simulator: jobs, strategies and impairments on fabrics of any size, without switches or packets."""
