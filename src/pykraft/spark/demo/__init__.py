"""The first main job: a quorum under load, a killed leader, and every acknowledged record found again by Spark."""
