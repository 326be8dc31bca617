"""Wings of the house: what is installed for one purpose. ``CONTRACT`` names the modules that each may import."""
