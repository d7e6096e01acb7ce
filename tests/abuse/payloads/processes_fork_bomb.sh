# Each starts two of itself, to a depth where 63 are there at once; a mark for each that was.
bomb() {
  echo >>/work/marks
  if [ "$1" -gt 0 ]; then bomb $(($1 - 1)) & bomb $(($1 - 1)) & fi
  sleep 0.5
  wait
}
bomb 5
[ "$(wc -l </work/marks)" -ge 63 ] && echo 'through: every process of the bomb'
echo done
