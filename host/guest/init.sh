#!/usr/bin/dash
# The first process of a guest: it makes a machine of what the kernel has unpacked, runs /script, whose output is the guest's, and says its status.
export PATH=/usr/sbin:/usr/bin HOME=/root LC_ALL=C.UTF-8
# Runtimes of containers change the root (pivot_root(2)), which cannot be done where that is what the kernel has unpacked. It becomes a mount above it.
if [ "$1" != mounted ]; then
  mkdir -p /root && mount -o bind / /root && cd /root && mount -o move . / && exec chroot . "$0" mounted
fi
mount -t proc -o nosuid,nodev,noexec proc /proc
mount -t sysfs -o nosuid,nodev,noexec sys /sys
mount -t devtmpfs dev /dev
exec </dev/null >/dev/console 2>&1
# The port that takes the output is built into 6.12, and a module of 6.1 (drivers/virtio, drivers/char).
modprobe -a virtio_pci virtio_console
for try in 1 2 3 4 5 6 7 8 9 10; do [ -c /dev/vport0p1 ] || sleep 1; done
for dir in /run /tmp /dev/shm; do mkdir -p $dir && mount -t tmpfs -o mode=1777 tmpfs $dir; done
chmod 755 /run && mkdir -p /run/lock /run/openvswitch
mkdir -p /dev/pts && mount -t devpts devpts /dev/pts
mount -t cgroup2 cgroup /sys/fs/cgroup
mount -t bpf bpf /sys/fs/bpf
mount -t tracefs tracefs /sys/kernel/tracing
ln -s /proc/self/fd /dev/fd
hostname guest
ip link set lo up
# A tunnel's module makes a device in every namespace when it is loaded, as gre0; a test would take it for its own leak. 1: in this namespace alone
# (Documentation/admin-guide/sysctl/net.rst).
echo 1 >/proc/sys/net/core/fb_tunnels_only_for_init_net
# What no request to the kernel loads: devices that are opened by name, and sysctls. Everything else comes when it is asked for (/sbin/modprobe).
modprobe -a tun br_netfilter nf_conntrack overlay
echo '<2>nettoll-guest: up' >/dev/kmsg
/script >/dev/vport0p1 2>&1
status=$?
# A record of the kernel's log is a line of its own on the console, whatever else is said there. Level 2 is shown.
echo "<2>nettoll-guest: exit $status" >/dev/kmsg
poweroff -f
