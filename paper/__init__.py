"""The paper's published numbers, the grids of the documented runs, and their results."""
