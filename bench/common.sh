# What the harnesses share. Sourced, not run.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# How busy the machine is while we do nothing, in percent of all cores.
others_busy() {
  local before after
  read -ra before </proc/stat
  sleep 1
  read -ra after </proc/stat
  local total=0 idle=$((after[4] + after[5] - before[4] - before[5])) field
  for field in 1 2 3 4 5 6 7 8; do
    total=$((total + after[field] - before[field]))
  done
  echo $((100 * (total - idle) / total))
}

row() { printf '%-28s %12s %s\n' "$1" "$2" "$3"; }

# The binary to measure: KILN, or a release build made now.
find_kiln() {
  if [[ -n ${KILN:-} ]]; then
    realpath "$KILN"
    return
  fi
  (cd "$root" && cargo build --quiet --release --locked --package kiln)
  echo "$root/target/release/kiln"
}

# The program that plays runners over HTTP: BENCH_PLANE, or a release build made now.
find_simulated() {
  if [[ -n ${BENCH_PLANE:-} ]]; then
    realpath "$BENCH_PLANE"
    return
  fi
  (cd "$root" && cargo build --quiet --release --locked --package kiln-testkit --bin bench-plane)
  echo "$root/target/release/bench-plane"
}

# Sets `buildbot` to where the peer is installed, once, below target/bench; empty where it cannot be had.
install_buildbot() {
  buildbot=$root/target/bench/buildbot
  [[ -x $buildbot/bin/buildbot ]] ||
    { python3 -m venv "$buildbot" && "$buildbot/bin/pip" install --quiet --disable-pip-version-check \
      buildbot==4.3.0 buildbot-worker==4.3.0 buildbot-www==4.3.0; } >&2 ||
    buildbot=
  [[ -n $buildbot ]] || row buildbot missing 'PyPI package buildbot'
}

# The fastest and the slowest of all rounds, in microseconds.
declare -A best worst

# measure NAME: runs `run_NAME` once and keeps its time.
measure() {
  local start elapsed
  start=${EPOCHREALTIME//[.,]/}
  "run_$1"
  elapsed=$((${EPOCHREALTIME//[.,]/} - start))
  if ((elapsed < ${best[$1]:-elapsed + 1})); then best[$1]=$elapsed; fi
  if ((elapsed > ${worst[$1]:-0})); then worst[$1]=$elapsed; fi
}

# in_turns ROUNDS NAME…: one round to warm the caches, then so many that count.
in_turns() {
  local rounds=$1 round name
  shift
  for name in "$@"; do "run_$name"; done
  for ((round = 0; round < rounds; round++)); do
    for name in "$@"; do measure "$name"; done
  done
}

spread() { row "${1}_spread" "$((100 * (worst[$1] - best[$1]) / best[$1]))" %; }
