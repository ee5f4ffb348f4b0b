"""``pykraft completion``: print the script with which a shell completes commands and options.

The script is click's. It asks ``pykraft`` for candidates, so it stays valid when commands change. `pykraft.cli.main`
names the commands without importing them.
"""

from __future__ import annotations

from typing import Final

import click
from click.shell_completion import get_completion_class

VARIABLE: Final = "_PYKRAFT_COMPLETE"
"""The script sets this variable to ask for candidates; `click.Command.main` answers."""


@click.command(short_help="Print a completion script for a shell.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    r"""Print the script that makes SHELL complete the commands and options of pykraft.

    \b
    bash: eval "$(pykraft completion bash)"                                      in ~/.bashrc
    zsh:  eval "$(pykraft completion zsh)"                                       in ~/.zshrc
    fish: pykraft completion fish > ~/.config/fish/completions/pykraft.fish      once
    """
    found = get_completion_class(shell)
    assert found is not None, "click has the three"
    script = found(context.find_root().command, {}, "pykraft", VARIABLE)
    click.echo(script.source_template % script.source_vars())
