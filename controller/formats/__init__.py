"""Readers and writers of files: our own topology files and those of others."""
