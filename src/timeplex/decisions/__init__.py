"""What people decide of findings and proposals: `journal` is the file, `applying` makes the new KB of it."""
