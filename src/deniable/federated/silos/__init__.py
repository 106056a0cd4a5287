"""Hospitals train together, and what is protected is a row or a patient, not the hospital."""
