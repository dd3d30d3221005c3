//! The completion scripts for shells. They call `rpc` for each word, so they do not change with its commands.

use crate::commands::completion::line::CompletionShell;

pub fn completion_script(shell: CompletionShell) -> &'static str {
    match shell {
        CompletionShell::Bash => BASH_SCRIPT,
        CompletionShell::Zsh => ZSH_SCRIPT,
        CompletionShell::Fish => FISH_SCRIPT,
    }
}

const BASH_SCRIPT: &str = r#"# Completion of rpc for bash: source it, or install it as `rpc` in bash-completion's completions directory.
_rpc() {
    mapfile -t COMPREPLY < <(rpc complete bash -- "${COMP_LINE:0:COMP_POINT}" "$COMP_WORDBREAKS" 2>/dev/null)
    if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *= ]]; then
        compopt -o nospace 2>/dev/null
    fi
}
complete -o default -F _rpc rpc
"#;

const ZSH_SCRIPT: &str = r#"#compdef rpc
# Completion of rpc for zsh: install it as `_rpc` in a directory of $fpath, or source it after compinit.
_rpc() {
    local -a candidates open closed
    candidates=("${(@f)$(rpc complete zsh -- "${(@)words[1,CURRENT]}" 2>/dev/null)}")
    candidates=(${candidates:#})
    if (( ! ${#candidates} )); then
        _files
        return
    fi
    open=(${(M)candidates:#*=:*})
    closed=(${candidates:#*=:*})
    _describe -V 'rpc' closed -- open -S ''
}
if [ "$funcstack[1]" = "_rpc" ]; then
    _rpc "$@"
else
    compdef _rpc rpc
fi
"#;

const FISH_SCRIPT: &str = r"# Completion of rpc for fish: install it as `rpc.fish` in ~/.config/fish/completions.
function __rpc_complete
    set -l found (rpc complete fish -- (commandline -opc) (commandline -ct) 2>/dev/null)
    if test (count $found) -gt 0
        printf '%s\n' $found
    else
        __fish_complete_path (commandline -ct)
    end
end
complete -c rpc -f -a '(__rpc_complete)'
";
