#!/bin/sh
# Trains a small network to read digits, converts it with atc, and classifies pictures with it: in C, then in Python.
#
#     target/toolkit/bin/cairn run -- sh examples/classify.sh [FOLDER]
#
# It needs Python and gcc, and the environment of a toolkit: `cairn run` sets it, or `source set_env.sh`.
set -eu
: "${ASCEND_HOME_PATH:?is not set: run this script by 'TOOLKIT/bin/cairn run -- sh classify.sh', or source TOOLKIT/set_env.sh}"
examples=$(cd "$(dirname "$0")" && pwd)
folder=${1:-$(mktemp -d)}
python=${PYTHON:-python3}

echo "== python digits.py: the network and pictures, in $folder"
"$python" "$examples/python/digits.py" "$folder"

echo "== atc: digits.onnx to digits.om"
"$ASCEND_HOME_PATH/bin/atc" --model="$folder/digits.onnx" --framework=5 --output="$folder/digits" --soc_version=Ascend910B1

echo "== classify.c"
"${CC:-gcc}" -O1 -Wall "$examples/c/classify.c" -I"$ASCEND_HOME_PATH/include" -L"$ASCEND_HOME_PATH/lib64" -lascendcl \
    -o "$folder/classify"
"$folder/classify" "$folder/digits.om" "$folder"/[0-9].pgm

echo "== python classify.py"
"$python" "$examples/python/classify.py" "$folder/digits.om" "$folder"/[0-9].pgm
