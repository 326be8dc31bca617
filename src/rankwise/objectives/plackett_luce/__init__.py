"""Rankings drawn by Plackett and Luce, and losses of them."""
