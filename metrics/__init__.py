"""Scores of predictions against labels."""
