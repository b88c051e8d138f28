"""Things every layer needs and none owns: configuration values, CPU facts, files, progress.

Knows the machine and the file system; knows nothing of models, graphs or text.
"""
