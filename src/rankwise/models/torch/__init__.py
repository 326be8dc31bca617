"""Modules of torch as models: their weights as files, devices and global state."""
