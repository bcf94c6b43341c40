"""What is probably wrong in a KB: rules mined from its own facts, and the facts that break them. No torch in here."""
