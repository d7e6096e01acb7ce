# A shell, a program of its own and a child in the background: all of them count.
head -c "$1" /dev/zero >&2 &
head -c "$1" /dev/zero
wait
echo
echo done
