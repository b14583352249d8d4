# shellcheck shell=bash
# shellcheck disable=SC2154 # root and venv are the launcher's
# What `./heddle test` runs, cheapest first: style, types, arrows, spelling, generated code, then the tests. Sourced by
# ./heddle. What each tool demands is written in pyproject.toml, not here.

failed_checks=()

# check NAME COMMAND...: silent when it passes, its whole output when it does not.
check() {
  local name=$1 output
  shift
  if output=$("$@" 2>&1 </dev/null); then
    say "$name: ok"
  else
    printf '%s\n' "$output" >&2
    say "$name: FAILED"
    failed_checks+=("$name")
  fi
}

# The lab's modules are found by name, as they are when they run; from the root its folder would hide the real Mininet.
lab_types() {
  (cd -- "$root/mininet" && MYPYPATH=.:..:../proto mypy --config-file ../pyproject.toml --cache-dir ../.mypy_cache/mininet .)
}

# All of them run before the verdict, so that one round shows everything there is to mend.
run_checks() {
  check "ruff check" ruff check .
  check "ruff format" ruff format --check .
  check "mypy" mypy
  check "mypy mininet" lab_types
  check "import arrows" lint-imports
  check "spelling" codespell
  check "generated stubs" python proto/generate.py --check
  if [[ ${#failed_checks[@]} -gt 0 ]]; then
    fail "no test was run, for these checks failed: $(printf '%s, ' "${failed_checks[@]}" | sed 's/, $//')"
  fi
}

# From cheap to real; a folder that is not named here comes last.
test_folders() {
  local name
  for name in openvswitch mininet browser; do
    [[ -d tests/$name ]] && printf 'tests/%s\n' "$name"
  done
  find tests -mindepth 1 -maxdepth 1 -type d ! -name '[._]*' | grep -vxE 'tests/(unit|property|openvswitch|mininet|browser)' | sort
  return 0
}

# The deterministic tests share the cores, file by file. What deals in real packets has the machine to itself after them.
run_tests() {
  cd -- "$root" || exit
  if [[ $# -gt 0 ]]; then
    exec pytest "$@"
  fi
  run_checks
  local folders failed=0
  mapfile -t folders < <(test_folders)
  pytest -n auto --dist loadfile tests/unit tests/property || failed=1
  pytest "${folders[@]}" || failed=1
  if [[ $failed -ne 0 ]]; then
    fail "tests failed"
  fi
}
