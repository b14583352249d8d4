"""Which path each flow takes, and how near to optimal that choice is proven to be."""
