# The same with dd, into a file after another.
for number in $(seq 1 5); do
  dd if=/dev/zero of="$1/filler-$number" bs=1M count=16 status=none || break
done
[ "$(du -sm "$1" | cut -f1)" -gt "$2" ] && echo "through: $1 holds more"
rm -f "$1"/filler-*
echo done
