"""The data: dates, spans, facts, names, readers, splits. No torch in here."""
