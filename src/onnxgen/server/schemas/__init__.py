"""What comes over HTTP and goes back, by endpoint: pydantic models, and nothing that acts."""
