"""Programs behind the measurements: a server of ours over another program's pipeline, and the engine without a server."""
