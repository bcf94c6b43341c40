"""The command line: one small module a verb. Heavy imports stand inside the commands."""
