# Children of a shell that waits for them, some in the background and out of its group.
trap '' TERM INT HUP QUIT
for _ in 1 2 3; do setsid sleep "$1" & nohup sleep "$1" >/dev/null 2>&1 & done
sleep "$1"
echo 'through: slept on'
echo done
