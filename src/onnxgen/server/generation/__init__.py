"""From a request to its answers: options, messages, the pieces that come, and the stream that takes them to the client.

What the routes of chat, completions, responses and messages share; it knows no path, and no shape of any one API but chat's.
"""
