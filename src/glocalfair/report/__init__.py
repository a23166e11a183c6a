"""What people read: terminal tables of a run."""
