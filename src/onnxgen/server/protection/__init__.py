"""What stands between a port and the routes: limits, keys, origins and error answers.

Knows HTTP and the settings; knows nothing of models.
"""
