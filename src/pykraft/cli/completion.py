"""``pykraft completion``: print the script with which a shell completes commands and options.

The script asks ``pykraft`` for candidates, so it stays valid when commands change; `pykraft.cli.parsing.shells` has it.
`pykraft.cli.main` names the commands without importing them.
"""

from typing import Final

import click

from pykraft.cli.main import VARIABLE
from pykraft.cli.parsing.shells import SHELLS, script
from pykraft.cli.parsing.value import OneOf

SCRIPTS: Final = """Print the script that makes SHELL (bash, zsh or fish) complete commands, options and values.

\b
Install it once, or evaluate it in each new shell:
bash, in ~/.bashrc:  eval "$(pykraft completion bash)"
zsh, in ~/.zshrc:    eval "$(pykraft completion zsh)"
fish, once:          pykraft completion fish \\
                       > ~/.config/fish/completions/pykraft.fish
"""
"""The help text; click keeps the lines of a paragraph that begins with a backspace character."""


@click.command(short_help="Print a completion script for a shell.", help=SCRIPTS)
@click.argument("shell", type=OneOf(list(SHELLS)), metavar="SHELL")
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script; see `SCRIPTS`."""
    click.echo(script(shell, context.find_root().command, "pykraft", VARIABLE), nl=False)
