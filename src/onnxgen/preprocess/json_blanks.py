"""Blanks in JSON that a grammar has a model write."""

JSON_BLANKS = r"[ \t]{1,2}|\r?\n[ \t]{0,32}"
"""Blanks between two parts of JSON, a regular expression: at most two, or one line break with the indentation
after it. Without a bound a model may write blanks for ever."""
