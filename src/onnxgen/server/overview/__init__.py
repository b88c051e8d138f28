"""What a server says of itself: how busy it is, what it takes, how it is configured.

Knows all that the routes share; knows nothing of requests.
"""
