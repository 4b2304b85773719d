"""Rules: how strange is too strange."""
