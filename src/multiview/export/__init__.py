"""Models, views and indexes in forms that other programs read."""
