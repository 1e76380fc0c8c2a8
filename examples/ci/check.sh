#!/bin/sh
# Everything that is checked on a push: the pool's contract, its figures on a recorded program, and the memory of a
# program that uses it. Ends with 1 at the first thing that is wrong. Needs `cairn` in the path or CAIRN, and a C compiler.
#
#     sh check.sh [BUILD-FOLDER]
set -eu

here=$(cd "$(dirname "$0")" && pwd)
build=${1:-$here/build}
cairn=${CAIRN:-cairn}
mkdir -p "$build"

# The toolkit's headers and libraries, as after `source set_env.sh`.
eval "$("$cairn" env)"

echo "== build"
flags="-std=gnu11 -O2 -Wall -Wextra -Werror -I$ASCEND_HOME_PATH/include"
${CC:-gcc} $flags -shared -fPIC "$here/src/pool.c" -o "$build/libpool.so" -L"$ASCEND_HOME_PATH/lib64" -lascendcl -pthread
${CC:-gcc} $flags "$here/src/app.c" -o "$build/app" -L"$build" -lpool -L"$ASCEND_HOME_PATH/lib64" -lascendcl -Wl,-rpath,"$build"

echo "== contract"
"$cairn" pooltest "$build/libpool.so" --junit "$build/pool-torch.xml"
"$cairn" pooltest --acl "$build/libpool.so:make_desc" --junit "$build/pool-acl.xml"

echo "== figures"
"$cairn" replay "$here/traces/app.trc" --allocator "so:$build/libpool.so" --allocator cairn --fail-above 2

echo "== memory of a program"
"$cairn" check -- "$build/app"
"$cairn" record -o "$build/run.cairn" -- "$build/app"
if [ -e "$build/last-good.cairn" ]; then
    "$cairn" diff "$build/last-good.cairn" "$build/run.cairn" --fail-above 5%
else
    echo "no record of an earlier run: this one is the first"
fi
cp "$build/run.cairn" "$build/last-good.cairn"
echo "== all good"
