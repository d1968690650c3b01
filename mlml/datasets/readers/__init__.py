"""One file, one layout of images and labels. The file's name is the reader's name."""
