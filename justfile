# Shortcuts; each is one command that can be typed without just.

# List the recipes.
default:
    @just --list

# All static checks; never writes.
check:
    bin/test lint

# Format, and repair what ruff can repair.
fix:
    .venv/bin/python -m ruff check --fix
    .venv/bin/python -m ruff format

# Stages of bin/test, all by default; `just test unit`.
test *STAGES:
    bin/test {{STAGES}}

# One simulated cluster with everything that happens in it.
sim SEED:
    bin/pykraft sim run --seed {{SEED}} --trace

# The documentation on a local port, built anew at each change.
docs:
    .venv/bin/python -m mkdocs serve --strict

# Write requirements/ anew from pyproject.toml; `just lock --upgrade` also takes newer versions.
lock *OPTIONS:
    bin/_lock {{OPTIONS}}

# A release; `just release minor --dry-run` only tells, `just release --notes` prints what it will say.
release *WORDS:
    bin/release {{WORDS}}
