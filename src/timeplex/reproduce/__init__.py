"""The paper's tables and figures from real runs, with the published numbers beside ours.

plan            which runs each table and figure needs
published.toml  the numbers of the paper
records         what was measured, kept as JSON in `results/`
measure         a trained run → all figures that the tables need
runner          train what is missing, resume what was cut off, evaluate, record
figures         what the figures show, and drawing it
tables          the records → docs/results.md, by the template results.md; whether something is missing there

Reading records and writing the page does not import torch.
"""
