"""A node as a process: asyncio and threads around the host, and nothing that the simulator could not prove."""
