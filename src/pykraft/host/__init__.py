"""One node without a loop: what the core decides, carried out on files and connections that others bring."""
