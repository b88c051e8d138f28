"""What other APIs than chat completions say and hear: OpenAI's Responses and Anthropic's Messages, to and from our own.

Pure conversions, and the store of responses; nothing here knows of HTTP, engines or tokens.
"""
