# shellcheck shell=bash
# shellcheck disable=SC2154 # root and venv are the launcher's
# What this clone needs before a command can run: Debian's packages, a virtual environment with the pinned Python
# packages, the protobuf stubs, and a link to Debian's Mininet. Sourced by ./heddle, which sets `root` and `venv`.
# It decides neither which packages those are (debian-packages.txt, requirements.txt) nor what runs afterwards.

shopt -s globstar nullglob
setup_log=''
leftovers=() # files that a set-up removes again, however it ends

say() { printf 'heddle: %s\n' "$*" >&2; }

# fail SENTENCE [STATUS]
fail() {
  say "$1"
  exit "${2:-1}"
}

# Somebody's activated environment, pyenv choice or pip habit (--user, --target, constraints, ...) must not reach
# ours. Where and how packages are fetched is the machine's business and stays: indexes, proxies, certificates.
clean_environment() {
  unset PYTHONPATH PYTHONHOME PYTHONSTARTUP PYTHONUSERBASE PYTHONEXECUTABLE PYTHONSAFEPATH PYTHONPYCACHEPREFIX
  unset VIRTUAL_ENV CONDA_PREFIX PYENV_VERSION
  local name
  for name in "${!PIP_@}" "${!UV_@}"; do
    case $name in
      PIP_INDEX_URL | PIP_EXTRA_INDEX_URL | PIP_FIND_LINKS | PIP_TRUSTED_HOST | PIP_CONFIG_FILE) ;;
      PIP_CERT | PIP_CLIENT_CERT | PIP_PROXY | PIP_KEYRING_PROVIDER) ;;
      PIP_TIMEOUT | PIP_DEFAULT_TIMEOUT | PIP_RETRIES | PIP_CACHE_DIR | PIP_NO_CACHE_DIR) ;;
      UV_DEFAULT_INDEX | UV_INDEX | UV_INDEX_* | UV_EXTRA_INDEX_URL | UV_FIND_LINKS | UV_CONFIG_FILE) ;;
      UV_NATIVE_TLS | UV_SYSTEM_CERTS | UV_INSECURE_HOST | UV_KEYRING_PROVIDER) ;;
      UV_HTTP_* | UV_CONCURRENT_* | UV_CACHE_DIR | UV_NO_CACHE | UV_LINK_MODE) ;;
      *) unset "$name" ;;
    esac
  done
}

# What the commands see: as if the environment had been activated, so that `ryu-manager` is found by name.
enter_environment() {
  export VIRTUAL_ENV=$venv PATH=$venv/bin:$PATH
}

# run_step WHAT COMMAND...: one line to say what is done; the command's own words only when it fails.
run_step() {
  local what=$1
  shift
  say "$what"
  "$@" >"$setup_log" 2>&1 </dev/null && return
  if grep -qiE 'could not resolve|resolution|connection (refused|timed out)|network is unreachable|error sending request|failed to (fetch|connect)|unable to connect|dns error|from versions: none' "$setup_log"; then
    fail "that failed because a package server cannot be reached: check this machine's network, proxy and index settings, then start again."
  fi
  tail -n 30 "$setup_log" >&2
  fail "that failed; its last words are above."
}

# --- is there anything to do? -------------------------------------------------------------------------------------

# The interpreter that was asked for, as a path or, when it does not exist yet, as it was written.
asked_python() {
  local asked=${HEDDLE_PYTHON:-/usr/bin/python3}
  command -v -- "$asked" || printf '%s\n' "$asked"
}

# One hash over everything a set-up depends on, so that a start with nothing to do costs milliseconds.
setup_key() {
  {
    printf '%s\n' "$root" "$(readlink -f -- "$(asked_python)")"
    cat -- "$root"/{heddle,pyproject.toml,deploy/setup.sh,deploy/*.txt} \
      "$root"/deploy/packaging/*.* "$root"/proto/generate.py "$root"/proto/heddle/**/*.proto
  } | sha256sum
}

is_set_up() {
  [[ -x $venv/bin/python && -x $venv/bin/heddle && -f $venv/heddle-setup ]] || return 1
  [[ $(<"$venv/heddle-setup") == "$(setup_key)" ]] || return 1
  local proto
  for proto in "$root"/proto/heddle/**/*.proto; do
    [[ -f ${proto%.proto}_pb2.py ]] || return 1
  done
}

# --- Debian's packages --------------------------------------------------------------------------------------------

wanted_packages() { sed -e 's/[[:space:]]*#.*//' -e '/^$/d' "$root/deploy/debian-packages.txt" | sort; }

missing_packages() {
  local wanted
  mapfile -t wanted < <(wanted_packages)
  comm -23 <(printf '%s\n' "${wanted[@]}") \
    <(dpkg-query -W -f '${Package} ${db:Status-Status}\n' "${wanted[@]}" 2>/dev/null | sed -n 's/ installed$//p' | sort -u)
}

# Open vSwitch's package would start its daemons; Heddle's tests and demo bring their own, and the machine's are its
# owner's decision. policy-rc.d is Debian's way to say so; one that is already there (containers) is left alone.
install_packages() {
  if [[ ! -e /usr/sbin/policy-rc.d ]]; then
    leftovers+=(/usr/sbin/policy-rc.d)
    printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
    chmod 755 /usr/sbin/policy-rc.d
  fi
  export DEBIAN_FRONTEND=noninteractive
  # One foreign repository that is down must not stop us, so only the installation decides.
  apt-get -q update || true
  apt-get -q -y -o DPkg::Lock::Timeout=300 install --no-install-recommends "$@"
}

ensure_packages() {
  if ! command -v dpkg-query >/dev/null; then
    say "this is not Debian: taking it that these, or their like, are installed: $(wanted_packages | paste -sd' ')"
    return
  fi
  local missing
  mapfile -t missing < <(missing_packages)
  [[ ${#missing[@]} -gt 0 ]] || return 0
  if [[ $EUID -ne 0 ]]; then
    fail "Debian packages are missing and only root may install them; run this once: sudo apt-get install --no-install-recommends ${missing[*]}" 2
  fi
  run_step "installing Debian packages: ${missing[*]}" install_packages "${missing[@]}"
}

# --- the virtual environment --------------------------------------------------------------------------------------

# The interpreter behind shims and other environments, so that ours depends on none of them.
base_python() {
  local program='import os, sys
print(os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable))
sys.exit(sys.version_info < (3, 11))'
  local found
  if ! found=$("$(asked_python)" -I -c "$program" 2>&1); then
    fail "$(asked_python) does not run as Python 3.11 or newer; set HEDDLE_PYTHON to one that does." 2
  fi
  printf '%s\n' "$found"
}

# An environment that was moved, was interrupted half-way or belongs to another interpreter cannot be mended.
is_usable() {
  [[ -x $venv/bin/python && $(readlink -f -- "$venv/bin/python") == "$1" ]] &&
    grep -qF -- "$venv" "$venv/bin/activate" 2>/dev/null &&
    "$venv/bin/python" -I -c 'import pip' 2>/dev/null
}

make_environment() { rm -rf -- "$venv" && "$1" -m venv "$venv"; }

ensure_environment() {
  local base
  base=$(base_python)
  is_usable "$base" || run_step "making the virtual environment with $base" make_environment "$base"
}

# --- Python packages ----------------------------------------------------------------------------------------------

# uv is pinned and hashed like everything else; its lines in requirements.txt are what pip is given to start with.
install_uv() {
  sed -n '/^uv==/,/[^\\]$/p' "$root/deploy/requirements.txt" >"$setup_log.uv"
  "$venv/bin/python" -I -m pip install --disable-pip-version-check --no-input --no-deps --require-hashes -r "$setup_log.uv"
}

ensure_uv() {
  local pinned
  pinned=$(sed -n 's/^uv==\([^ ]*\).*/\1/p' "$root/deploy/requirements.txt")
  [[ $("$venv/bin/uv" --version 2>/dev/null) == "uv $pinned"* ]] || run_step "installing uv $pinned" install_uv
}

# Companies point pip at their mirror; uv reads none of pip's settings, so it is told.
share_pip_settings() {
  if [[ -z ${UV_DEFAULT_INDEX:-}${UV_INDEX_URL:-} ]]; then
    local index
    index=${PIP_INDEX_URL:-$("$venv/bin/python" -m pip config get global.index-url 2>/dev/null || true)}
    [[ -z $index ]] || export UV_DEFAULT_INDEX=$index
  fi
  if [[ -z ${SSL_CERT_FILE:-} && -n ${PIP_CERT:-} ]]; then
    export SSL_CERT_FILE=$PIP_CERT
  fi
}

uv_install() { (cd -- "$root" && "$venv/bin/uv" pip install --python "$venv/bin/python" "$@"); }

ensure_python_packages() {
  run_step "installing the pinned Python packages" uv_install --require-hashes \
    --build-constraints deploy/build-constraints.txt --requirements deploy/requirements.txt
  # Without build isolation nothing unpinned is fetched; the build hook generates the protobuf stubs.
  run_step "installing Heddle in place and generating the protobuf stubs" \
    uv_install --no-deps --no-build-isolation --editable .
}

# Debian's Mininet is the one that fits its mnexec; it is pure Python and serves any interpreter.
ensure_mininet() {
  local package=/usr/lib/python3/dist-packages/mininet site
  site=$("$venv/bin/python" -I -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  if [[ -d $package ]]; then
    ln -sfn -- "$package" "$site/mininet"
  else
    say "Debian's mininet package is not on this machine: commands that build a network will not work"
  fi
}

# --- all of it ----------------------------------------------------------------------------------------------------

remove_leftovers() { rm -f -- "${leftovers[@]}"; }

run_steps() {
  setup_log=$(mktemp)
  leftovers=("$setup_log" "$setup_log.uv")
  trap remove_leftovers EXIT
  ensure_packages
  ensure_environment
  ensure_uv
  share_pip_settings
  ensure_python_packages
  ensure_mininet
  setup_key >"$venv/heddle-setup.new"
  mv -f -- "$venv/heddle-setup.new" "$venv/heddle-setup"
  remove_leftovers
  trap - EXIT
  say "set up"
}

# The lock is the clone's own folder: no file is left behind, and it goes with the process.
set_up() {
  is_set_up && return
  if [[ ! -w $root || (-e $venv && ! -w $venv) ]]; then
    fail "only the owner of $root can set it up: run ./heddle setup as $(stat -c %U -- "$root"), or make a clone of your own." 2
  fi
  exec 9<"$root"
  if ! flock -n 9; then
    say "another start is setting up; waiting for it"
    flock 9
  fi
  is_set_up || run_steps
  exec 9<&-
}
