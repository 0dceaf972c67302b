"""Data sets: from files to features, and from predictions to submission files."""
