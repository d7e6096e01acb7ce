#!/usr/bin/env bash
# Groups the errors of a log: main.sh [--file NAME] [--level error|warning] [--top N]. Exit status 2 for unusable input.
set -euo pipefail
export LC_ALL=C # bytes: logs hold broken UTF-8, and awk must not stop there

here=$(dirname "${BASH_SOURCE[0]}")

fail() {
  printf 'error: %s\n' "$1" >&2
  exit 2
}

file='' level=error top=20
while (($#)); do
  case $1 in
    --file=* | --level=* | --top=*) set -- "${1%%=*}" "${1#*=}" "${@:2}" ;;
  esac
  case $1 in
    --file | --level | --top)
      (($# > 1)) || fail "$1 needs a value"
      printf -v "${1#--}" '%s' "$2"
      shift 2
      ;;
    -*) fail "unknown option $1; known: --file --level --top" ;;
    *)
      file=$1
      shift
      ;;
  esac
done
[[ $level == error || $level == warning ]] || fail "--level must be error or warning"
[[ $top =~ ^[1-9][0-9]{0,3}$ ]] || fail "--top must be a number from 1 to 9999"

[[ -d ${SKILLBUS_IN:-} ]] || fail "no input files were given (\$SKILLBUS_IN is not a folder)"
[[ -d ${SKILLBUS_OUT:-} ]] || fail "there is nowhere to write results (\$SKILLBUS_OUT is not a folder)"
root=$(realpath "$SKILLBUS_IN")
if [[ -z $file ]]; then
  mapfile -d '' -t found < <(find "$root" -type f -print0)
  ((${#found[@]} == 1)) || fail "${#found[@]} input files were given; name one with --file"
  path=${found[0]}
else
  path=$(realpath -m -- "$root/$file")
  [[ $path == "$root"/* ]] || fail "'$file' leads out of the input folder"
  [[ -f $path ]] || fail "there is no input file '$file'"
fi

if [[ -s $path && $(head -c 65536 "$path" | tr -d '\000' | wc -c) -ne $(head -c 65536 "$path" | wc -c) ]]; then
  fail "$(basename "$path") is not a text file (it holds NUL bytes)"
fi

awk -v level="$level" -v top="$top" -v kept="$SKILLBUS_OUT/errors.txt" -v name="$(basename "$path")" -f "$here/group.awk" "$path"
