"""The commands of the command line, one in a file."""
