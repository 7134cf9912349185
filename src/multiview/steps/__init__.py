"""The declaration of steps, and their execution."""
