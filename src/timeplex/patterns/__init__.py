"""What a KB shows of time, learned once from its facts. No torch in here."""
