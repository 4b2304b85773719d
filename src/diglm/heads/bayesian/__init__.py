"""Heads whose weights have a distribution."""
