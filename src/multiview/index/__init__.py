"""The index over views: exact, approximate, and the stored views behind both."""
