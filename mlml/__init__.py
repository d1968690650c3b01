"""Multi-label image classification when most labels are missing."""

import os

# Torch's threads (GNU OpenMP) wait for each other by spinning, for up to 300,000 rounds. On a machine that is busy
# with other work, they take the core from the very thread they wait for, and training slows down to a fifth. After
# 1,000 rounds they sleep instead; docs/performance.md has the speeds. Read when torch is loaded, so set before that.
if "OMP_WAIT_POLICY" not in os.environ:
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")
