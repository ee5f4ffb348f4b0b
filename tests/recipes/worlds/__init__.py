"""The key-value store and the recipes on it, in simulated worlds with all faults.

``python -m tests.recipes.worlds --seeds 0:2000 --out worlds.jsonl`` plays worlds;
``python -m tests.recipes.worlds.search`` finds a world for each planted bug.
"""
