"""Makes what the comparison needs: a virtual environment for each peer, and each model in each peer's form."""
