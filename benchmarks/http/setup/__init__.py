"""What other programs' servers need beside `benchmarks.peers.setup`'s environments and models."""
