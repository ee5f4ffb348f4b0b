"""How bash, zsh and fish ask for completions, and what they get.

The shell passes the command up to the cursor in ``COMP_LINE``, and gets a line for each candidate: its kind (plain,
file or dir), the word, and the help. click's own scripts pass words as the shell split them, and bash also splits at
colons and equals signs. Invariant: a candidate is the whole word that is being completed, except for bash, which wants
what follows its last split. Files and folders are completed by the shell.
"""

import os
import re
from abc import ABC
from typing import Final

import click
from click.shell_completion import CompletionItem, ShellComplete, add_completion_class, split_arg_string

_CURSOR: Final = "\1"
_OPTION: Final = re.compile(r"--[\w-]+=")
_BASH: Final = """\
%(complete_func)s() {
    local type value
    COMPREPLY=()
    while IFS=$'\\t' read -r type value; do
        case $type in
            dir) compopt -o dirnames ;;
            file) compopt -o default ;;
            plain) COMPREPLY+=("$value") ;;
        esac
    done < <(env COMP_LINE="${COMP_LINE:0:COMP_POINT}" COMP_BREAKS="$COMP_WORDBREAKS" \\
        %(complete_var)s=bash_complete "$1")
}
complete -o nosort -F %(complete_func)s %(prog_name)s
"""
_ZSH: Final = """\
#compdef %(prog_name)s

%(complete_func)s() {
    local -a plain described response
    local type value help
    (( ! $+commands[%(prog_name)s] )) && return 1
    response=("${(@f)$(env COMP_LINE="${(j: :)words[1,CURRENT-1]} $PREFIX" \\
        %(complete_var)s=zsh_complete %(prog_name)s)}")
    for type value help in ${(@ps:\\t:)response}; do
        case $type in
            dir) compset -P '--*='; _path_files -/ ;;
            file) compset -P '--*='; _path_files -f ;;
            plain) if [[ -z $help ]]; then plain+=("$value"); else described+=("${value//:/\\\\:}:$help"); fi ;;
        esac
    done
    (( $#described )) && _describe -V unsorted described
    (( $#plain )) && compadd -V unsorted -a plain
}

if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    %(complete_func)s "$@"
else
    compdef %(complete_func)s %(prog_name)s
fi
"""
_FISH: Final = """\
function %(complete_func)s
    set -l option (string match --regex -- '^--[^=]+=' (commandline -ct); or echo)
    for line in (env COMP_LINE=(commandline -cp | string collect) %(complete_var)s=fish_complete %(prog_name)s)
        set -l fields (string split --max 2 \\t -- $line)
        switch $fields[1]
            case dir
                for path in (__fish_complete_directories $fields[2])
                    echo -- $option$path
                end
            case file
                for path in (__fish_complete_path $fields[2])
                    echo -- $option$path
                end
            case plain
                echo -- $fields[2]\\t$fields[3]
        end
    end
end

complete --no-files --command %(prog_name)s --arguments "(%(complete_func)s)"
"""


class _Shell(ShellComplete, ABC):
    def get_completion_args(self) -> tuple[list[str], str]:
        # The mark tells a word that is still empty from none, and counts as part of an open quotation.
        *finished, last = split_arg_string(os.environ["COMP_LINE"] + _CURSOR)
        return finished[1:], last.removesuffix(_CURSOR)

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem]:
        option = _OPTION.match(incomplete)
        found = super().get_completions(args, incomplete)
        if option is None:
            return found
        return [
            item if item.type != "plain" else CompletionItem(option[0] + item.value, help=item.help) for item in found
        ]

    def format_completion(self, item: CompletionItem) -> str:
        return "\t".join((item.type, self.typed(item.value), re.sub(r"\s+", " ", item.help or "")))

    def typed(self, value: str) -> str:
        """What the shell wants for this candidate."""
        return value


class _Bash(_Shell):
    name = "bash"
    source_template = _BASH

    def typed(self, value: str) -> str:
        """The part after the last character at which bash splits words."""
        _, incomplete = self.get_completion_args()
        breaks = [character for character in ":=" if character in os.environ["COMP_BREAKS"]]
        split = max((incomplete.rfind(character) for character in breaks), default=-1) + 1
        return value.removeprefix(incomplete[:split])

    def format_completion(self, item: CompletionItem) -> str:
        return f"{item.type}\t{self.typed(item.value)}"


class _Zsh(_Shell):
    name = "zsh"
    source_template = _ZSH


class _Fish(_Shell):
    name = "fish"
    source_template = _FISH


SHELLS: Final[dict[str, type[ShellComplete]]] = {each.name: each for each in (_Bash, _Zsh, _Fish)}


def script(shell: str, command: click.Command, program: str, variable: str) -> str:
    """The script that makes this shell complete the program."""
    made = SHELLS[shell](command, {}, program, variable)
    return made.source_template % made.source_vars()


def register_shells() -> None:
    """Let click answer these shells; before `click.Command.main`."""
    for each in SHELLS.values():
        add_completion_class(each)
