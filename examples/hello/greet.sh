#!/bin/sh
# Says hello to someone.
set -eu
echo "Hello, $1!"
