"""Judges the changes of jobq's tables: the laws that every history must obey, and the sources of the changes. See docs/guides/audit.md."""
