"""Where artifacts come from, and which of them nobody needs any more."""
