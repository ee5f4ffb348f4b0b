"""A node as a process: asyncio and threads around the host, and no logic that the simulator cannot test."""
