"""Scores: how strange rows are, by what one pass knows of them."""
