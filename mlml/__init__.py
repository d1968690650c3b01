"""mlml: multi-label image classification when most labels are missing."""
