# A control group of one's own, and the program that the host runs when it becomes empty.
mkdir -p /work/group
mount -t cgroup -o memory none /work/group && echo 'through: mounted a hierarchy'
mount -t cgroup2 none /work/group && echo 'through: mounted the hierarchy'
for folder in /sys/fs/cgroup /work/group; do
  find "$folder" -mindepth 1 \( -name release_agent -o -name cgroup.procs -o -name notify_on_release \) -writable |
    grep -q . && echo 'through: a control group can be changed'
done
mkdir /sys/fs/cgroup/mine && echo 'through: made a control group'
echo done
