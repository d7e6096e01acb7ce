"""Whatever of a host tells of it: accounts, homes, keys, logs, devices, kernel interfaces."""

from pathlib import Path

from tests.abuse.payloads.verdict import done, through

PLACES = (
    "/boot /etc/shadow /etc/ssh /etc/machine-id /etc/hostname /etc/resolv.conf /etc/environment /etc/sudoers /home "
    "/lost+found /media /mnt /opt /proc/kcore /root /run /srv /sys /var /var/run/docker.sock /dev/kmsg /dev/mem "
    "/dev/kvm /dev/fuse /dev/sda /dev/vda /dev/net/tun /dev/vsock /.dockerenv"
)
for place in PLACES.split():
    path = Path(place)
    if place == "/proc/kcore":
        try:
            path.open("rb").close()
        except OSError:
            continue
        through(place)
    elif path.exists():
        through(place)
known = {"bin", "dev", "etc", "in", "lib", "lib32", "lib64", "proc", "sbin", "skill", "tmp", "usr", "work"}
for folder in sorted(Path("/").iterdir()):
    if folder.is_dir() and folder.name not in known:
        through(f"{folder} is there")
done()
