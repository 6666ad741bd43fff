package cgroup

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRead(t *testing.T) {
	const mounts = `25 1 254:0 / / rw,relatime - ext4 /dev/vda rw
31 25 0:27 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
33 31 0:28 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:12 - cgroup cgroup rw,cpu,cpuacct
38 31 0:28 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct
34 31 0:29 /ours /sys/fs/cgroup/systemd ro,relatime - cgroup cgroup rw,name=systemd
35 31 0:30 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw,nsdelegate
36 25 0:31 / /mnt/cgroup rw - cgroup2 elsewhere rw
37 31 0:32 / /sys/fs/cgroup/torn rw
`
	got, err := read(strings.NewReader(mounts))
	if err != nil {
		t.Fatal(err)
	}
	want := []Hierarchy{
		{Dir: "/sys/fs/cgroup/cpu,cpuacct", Controllers: []string{"cpu", "cpuacct"}},
		{Dir: "/sys/fs/cgroup/systemd", Controllers: []string{"name=systemd"}, ReadOnly: true},
		{Dir: "/sys/fs/cgroup/unified", V2: true},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("hierarchies (-want +got):\n%s", diff)
	}
}

func TestBases(t *testing.T) {
	const text = "9:memory:/user.slice/a:b\n8:cpu,cpuacct:/user.slice/a:b\n7:name=systemd:/\n0::/init.scope\ntorn\n"
	if diff := cmp.Diff([]string{"/user.slice/a:b", "/init.scope"}, bases(text)); diff != "" {
		t.Errorf("bases (-want +got):\n%s", diff)
	}
}
