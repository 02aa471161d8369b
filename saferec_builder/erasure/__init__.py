"""Erases people from a workspace on request, and gives receipts."""
