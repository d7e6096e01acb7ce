# The same as programs of the system do it: root in a namespace of one's own, and an overlay in it.
[ "$(unshare --user --map-root-user id -u)" = 0 ] && echo 'through: root in a new namespace'
mkdir -p /work/lower /work/upper /work/inner /work/all
unshare --user --map-root-user --mount mount -t overlay overlay \
  -o lowerdir=/work/lower,upperdir=/work/upper,workdir=/work/inner /work/all && echo 'through: mounted an overlay'
unshare --user --map-root-user --mount mount -t tmpfs none /work/all && echo 'through: mounted a file system'
chroot /work /bin/true && echo 'through: changed the root folder'
nsenter --target 1 --mount true && echo 'through: entered a namespace'
echo done
