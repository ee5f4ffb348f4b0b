"""Histories of the key-value store on real nodes under real faults, and two checkers that judge them."""
