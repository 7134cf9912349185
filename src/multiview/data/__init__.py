"""The user's data: reading, checking, and splitting them into passages and questions."""
