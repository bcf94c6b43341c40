"""The data: dates, spans, facts, readers, benchmarks. No torch in here."""
