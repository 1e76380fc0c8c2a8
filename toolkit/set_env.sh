# Puts this toolkit into the environment of the shell that sources it:
#
#     source DIR/set_env.sh        (bash, zsh; in dash: . DIR/set_env.sh)
#
# Safe under `set -u` and `set -e`. Sourcing it again changes nothing, and sourcing it after another
# toolkit puts this one first. Every list of folders ends up without empty elements.

# Moves the folder $2 to the front of the list $1; the result is in __cairn_list.
__cairn_front() {
    __cairn_rest=$1
    __cairn_list=$2
    while [ -n "$__cairn_rest" ]; do
        __cairn_item=${__cairn_rest%%:*}
        case $__cairn_rest in
            *:*) __cairn_rest=${__cairn_rest#*:} ;;
            *) __cairn_rest= ;;
        esac
        if [ -n "$__cairn_item" ] && [ "$__cairn_item" != "$2" ]; then
            __cairn_list=$__cairn_list:$__cairn_item
        fi
    done
}

# The path of this file. Plain sh does not tell it, but has the file open while it reads it: there links are resolved.
__cairn_self=
if [ -n "${BASH_VERSION:-}" ]; then
    # shellcheck disable=SC3028,SC3054,SC2128
    __cairn_self=$BASH_SOURCE
elif [ -n "${ZSH_VERSION:-}" ]; then
    eval '__cairn_self=${(%):-%x}'
else
    for __cairn_item in /proc/$$/fd/*; do
        __cairn_item=$(readlink -- "$__cairn_item" || true)
        case $__cairn_item in
            */set_env.sh) __cairn_self=$__cairn_item ;;
        esac
    done
fi

# The folder by the path that it was sourced by, which may go through a link such as `latest`; where no toolkit
# is around that path, the file itself may be a link.
__cairn_root=$(CDPATH='' cd -- "$(dirname -- "$__cairn_self")" 2>/dev/null && pwd -L || true)
if [ ! -e "$__cairn_root/lib64/libascendcl.so" ]; then
    __cairn_self=$(readlink -f -- "$__cairn_self" || true)
    __cairn_root=${__cairn_self%/*}
fi
if [ -n "$__cairn_root" ] && [ -e "$__cairn_root/lib64/libascendcl.so" ]; then
    export ASCEND_HOME_PATH="$__cairn_root"
    export ASCEND_TOOLKIT_HOME="$__cairn_root"
    export ASCEND_OPP_PATH="$__cairn_root/opp"
    export ASCEND_AICPU_PATH="$__cairn_root"
    __cairn_front "${LD_LIBRARY_PATH:-}" "$__cairn_root/opp/lib64"
    __cairn_front "$__cairn_list" "$__cairn_root/lib64"
    export LD_LIBRARY_PATH="$__cairn_list"
    __cairn_front "${PYTHONPATH:-}" "$__cairn_root/python/site-packages"
    export PYTHONPATH="$__cairn_list"
    __cairn_front "${PATH:-}" "$__cairn_root/bin"
    export PATH="$__cairn_list"
    __cairn_status=0
else
    echo "set_env.sh: no toolkit around '$__cairn_self'; source the file of a toolkit from bash or zsh" >&2
    __cairn_status=1
fi

unset __cairn_self __cairn_root __cairn_list __cairn_rest __cairn_item
unset -f __cairn_front
# Leaves the status for the caller without keeping the variable.
eval "unset __cairn_status; return $__cairn_status"
