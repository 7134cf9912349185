"""Where a step's work is done: in this process, in a fork, or on several nodes."""
