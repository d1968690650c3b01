"""The paper's published numbers beside ours, and the commands that make the tables."""
