#compdef %(prog_name)s

%(complete_func)s() {
    local -a plain described response
    local type value help
    (( ! $+commands[%(prog_name)s] )) && return 1
    response=("${(@f)$(env COMP_LINE="${(j: :)words[1,CURRENT-1]} $PREFIX" \
        %(complete_var)s=zsh_complete %(prog_name)s)}")
    for type value help in ${(@ps:\t:)response}; do
        case $type in
            dir) compset -P '--*='; _path_files -/ ;;
            file) compset -P '--*='; _path_files -f ;;
            plain) if [[ -z $help ]]; then plain+=("$value"); else described+=("${value//:/\\:}:$help"); fi ;;
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
