# The operating system: is it supported, may we install, is there room, which packages are missing.
# Sourced, not run.
# shellcheck shell=bash

SUPPORTED='debian:12 ubuntu:24.04'
OS_RELEASE=${OS_RELEASE:-/etc/os-release}

require_supported_system() {
  local id=unknown version=unknown
  if [ -r "$OS_RELEASE" ]; then
    # shellcheck disable=SC1090
    id=$(. "$OS_RELEASE" && echo "${ID:-unknown}")
    # shellcheck disable=SC1090
    version=$(. "$OS_RELEASE" && echo "${VERSION_ID:-unknown}")
  fi
  case " $SUPPORTED " in *" $id:$version "*) ;; *)
    fail "set-up supports Debian 12 and Ubuntu 24.04, and this is $id $version" \
      "By hand: install these packages under your system's names, or newer ones:" \
      "  ${APT_BUILD[*]}" \
      "then: python3 -m venv $VENV && $VENV/bin/pip install ${PIP_RUN[*]} ${PIP_NVCC[*]}" \
      "then: cmake --preset default && cmake --build --preset default" \
      "or set AMPCTL_SKIP_SYSTEM=1 to let the scripts do all but the first of these." ;;
  esac
  [ "$(uname -m)" = x86_64 ] || fail "LibTorch with CUDA is used as built for x86_64, and this machine is $(uname -m)" \
    "Use an x86_64 machine."
}

# require_space PATH GIB WHAT
require_space() {
  local path=$1 needed=$2 what=$3 free
  while [ ! -e "$path" ]; do path=$(dirname "$path"); done
  free=$(df -Pk "$path" | awk 'NR == 2 { print int($4 / 1048576) }')
  ((free >= needed)) || fail "$what needs $needed GiB free in $path, and $free GiB are free" \
    "Free some space, or put the project on another disk, and run the same command again."
}

# Runs a command as root, or says which one somebody else must run.
as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  elif command -v sudo >/dev/null && { [ -t 0 ] || sudo -n true 2>/dev/null; }; then
    sudo "$@"
  else
    fail "root is needed once, and neither root nor sudo is available" "Ask an administrator to run: $*"
  fi
}

apt_missing() {
  local package
  for package in "$@"; do
    dpkg-query -W -f '${Status}\n' "$package" 2>/dev/null | grep -q 'ok installed' || echo "$package"
  done
}

# Installs those of the packages that are missing; does not touch apt when there are none.
apt_install() {
  [ -z "${AMPCTL_SKIP_SYSTEM:-}" ] || return 0
  local missing
  mapfile -t missing < <(apt_missing "$@")
  if ((${#missing[@]} == 0)); then
    detail "all there"
    return
  fi
  detail "to install: ${missing[*]}"
  require_space /usr 1 "installing system packages"
  # Asks for sudo's password here, in the foreground, where it can be answered.
  as_root true
  run_logged apt-update as_root env DEBIAN_FRONTEND=noninteractive apt-get -o Acquire::Retries=2 update
  run_logged apt-install as_root env DEBIAN_FRONTEND=noninteractive apt-get -o Acquire::Retries=2 -o DPkg::Lock::Timeout=120 \
    install -y --no-install-recommends "${missing[@]}"
}
