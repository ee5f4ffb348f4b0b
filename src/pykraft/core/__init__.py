"""The consensus core: a function from an event and the time to effects. Standard library only, no IO."""
