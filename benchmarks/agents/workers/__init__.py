"""One module for each program; each runs as a process of its own, in that program's environment."""
