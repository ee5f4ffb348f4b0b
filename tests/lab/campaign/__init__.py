"""Tests of `lab.campaign`."""
