"""Ordinary SQL under a budget: parse → check → plan, one tree for three engines."""
