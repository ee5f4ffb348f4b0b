"""The files in ``deploy``: what cannot be run here is at least consistent."""
