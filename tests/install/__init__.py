"""The wheel and the source distribution, tried outside a clone in environments that hold nothing else."""
