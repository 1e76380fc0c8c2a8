# Puts this toolkit into the environment of a bash that sources it, as set_env.sh one folder above does.
# shellcheck disable=SC1091
source "$(dirname -- "${BASH_SOURCE[0]}")/../set_env.sh"
