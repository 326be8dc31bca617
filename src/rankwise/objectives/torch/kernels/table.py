"""The one table of launches: the CPU's kernel, what copies its arrays as a device wants them, and the launch."""
