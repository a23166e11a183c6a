"""Methods: one file each, both halves in it. A new file here is registered, tested and documented by itself."""
