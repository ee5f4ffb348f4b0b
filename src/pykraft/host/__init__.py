"""One node without an event loop: carries out the core's effects on files and connections."""
