"""Runs worlds, shrinks failures, collects results in campaigns, and adds them up."""
