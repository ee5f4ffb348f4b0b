"""The system calls of `OsFs`, recorded, and what a power loss after each of them may leave."""
