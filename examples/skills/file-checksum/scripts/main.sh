#!/usr/bin/env bash
# Checksums of the input files: main.sh [--file NAME] [--algorithm NAME] [--expect HEX].
# Exit status 1 when the checksum is not the expected one, 2 for unusable input.
set -euo pipefail
export LC_ALL=C

fail() {
  printf 'error: %s\n' "$1" >&2
  exit 2
}

file='' algorithm=sha256 expect=''
while (($#)); do
  case $1 in
    --file=* | --algorithm=* | --expect=*) set -- "${1%%=*}" "${1#*=}" "${@:2}" ;;
  esac
  case $1 in
    --file | --algorithm | --expect)
      (($# > 1)) || fail "$1 needs a value"
      printf -v "${1#--}" '%s' "$2"
      shift 2
      ;;
    -*) fail "unknown option $1; known: --file --algorithm --expect" ;;
    *)
      file=$1
      shift
      ;;
  esac
done
case $algorithm in
  sha256 | sha512 | sha1 | md5) ;;
  *) fail "--algorithm must be one of sha256, sha512, sha1, md5" ;;
esac

[[ -d ${SKILLBUS_IN:-} ]] || fail "no input files were given (\$SKILLBUS_IN is not a folder)"
[[ -d ${SKILLBUS_OUT:-} ]] || fail "there is nowhere to write results (\$SKILLBUS_OUT is not a folder)"
root=$(realpath "$SKILLBUS_IN")
cd "$root"
if [[ -n $file ]]; then
  path=$(realpath -m -- "$root/$file")
  [[ $path == "$root"/* ]] || fail "'$file' leads out of the input folder"
  [[ -f $path ]] || fail "there is no input file '$file'"
  names=("${path#"$root"/}")
else
  mapfile -d '' -t names < <(find . -type f -printf '%P\0' | sort -z)
fi
((${#names[@]})) || fail "no input files were given"
[[ -z $expect || ${#names[@]} -eq 1 ]] || fail "${#names[@]} input files were given; name the one to check with --file"

"${algorithm}sum" -- "${names[@]}" | tee "$SKILLBUS_OUT/checksums.txt"

if [[ -n $expect ]]; then
  read -r actual _ <"$SKILLBUS_OUT/checksums.txt"
  if [[ ${actual#\\} != "${expect,,}" ]]; then
    printf 'error: %s does not have the %s checksum %s\n' "${names[0]}" "$algorithm" "${expect,,}" >&2
    exit 1
  fi
  echo OK
fi

awk '
  { sum = $1; sub(/^[^ ]+ [ *]/, ""); names[sum] = (count[sum]++ ? names[sum] ", " : "") $0 }
  END { for (sum in count) if (count[sum] > 1) printf "same content: %s\n", names[sum] }
' "$SKILLBUS_OUT/checksums.txt" | sort
