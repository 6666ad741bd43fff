package procfs

import (
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

// Each limit on processes is found where it applies, and only for the users to whom it applies.
func TestCeilings(t *testing.T) {
	const limits = "Limit                     Soft Limit           Hard Limit           Units     \nMax processes       " +
		"      50                   100                  processes \nMax address space         unlimited            " +
		"unlimited            bytes     \n"
	status := func(uid, threads, capabilities string) string {
		return "Name:\tsh\nUid:\t" + uid + "\t" + uid + "\t" + uid + "\t" + uid + "\nThreads:\t" + threads + "\nCapEff:\t" +
			capabilities + "\n"
	}
	const first, none, all = "0 0 4294967295\n", "0000000000000000", "000001ffffffffff"
	for _, c := range []struct {
		name  string
		files map[string]string
		want  []string
	}{
		{"nothing", nil, nil},
		{"user", map[string]string{
			"proc/self/limits": limits, "proc/self/status": status("1000", "3", none), "proc/self/uid_map": first,
			"proc/7/status": status("1000", "3", none), "proc/8/status": status("1000", "4", none),
			"proc/9/status": status("0", "4", all),
		}, []string{"ulimit -u (RLIMIT_NPROC) is 50, and 7 processes and threads of this user run"}},
		{"root", map[string]string{
			"proc/self/limits": limits, "proc/self/status": status("0", "3", all), "proc/self/uid_map": first,
		}, nil},
		{"capabilities", map[string]string{
			"proc/self/limits": limits, "proc/self/status": status("1000", "3", all), "proc/self/uid_map": first,
		}, nil},
		{"a user who is root inside", map[string]string{
			"proc/self/limits": limits, "proc/self/status": status("0", "3", all), "proc/self/uid_map": "0 1000 1\n",
			"proc/7/status": status("0", "3", all), "proc/8/status": status("65534", "4", none),
		}, []string{"ulimit -u (RLIMIT_NPROC) is 50, and 3 processes and threads of this user run"}},
		{"root who is root inside", map[string]string{
			"proc/self/limits": limits, "proc/self/status": status("0", "3", all), "proc/self/uid_map": "0 0 1\n",
		}, nil},
		{"version 2", map[string]string{
			"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/pids.max": "max\n", "sys/fs/cgroup/a/b/pids.current": "3\n",
			"sys/fs/cgroup/a/pids.max": "40\n", "sys/fs/cgroup/a/pids.current": "5\n",
		}, []string{`pids.max of the control group "/a" is 40, and 5 processes and threads in it run`}},
		{"one that has refused", map[string]string{
			"proc/self/cgroup": "8:pids:/a\n", "sys/fs/cgroup/pids/a/pids.max": "90\n",
			"sys/fs/cgroup/pids/a/pids.current": "5\n", "sys/fs/cgroup/pids/a/pids.events": "max 2\n",
		}, []string{`pids.max of the control group "/a" is 90, and 5 processes and threads in it run; it has refused 2`}},
		{"version 1, and the machine", map[string]string{
			"proc/self/cgroup": "8:pids:/a\n1:cpu:/c\n0::/\n", "sys/fs/cgroup/pids/a/pids.max": "90\n",
			"sys/fs/cgroup/pids/a/pids.current": "5\n",
			"proc/loadavg":                      "0.20 0.18 0.12 1/80 11206\n", "proc/sys/kernel/threads-max": "120\n",
			"proc/sys/kernel/pid_max": "1000\n",
		}, []string{
			"kernel.threads-max is 120, and 80 processes and threads of this machine run",
			`pids.max of the control group "/a" is 90, and 5 processes and threads in it run`,
			"kernel.pid_max is 1000, and 80 processes and threads of this machine run",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := fstest.MapFS{}
			for name, text := range c.files {
				root[name] = &fstest.MapFile{Data: []byte(text)}
			}
			var got []string
			for _, ceiling := range Ceilings(root) {
				got = append(got, ceiling.String())
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// The soft and the hard limit of a resource are told apart, and an unlimited one is no number.
func TestRlimit(t *testing.T) {
	root := fstest.MapFS{"proc/self/limits": {Data: []byte(
		"Limit                     Soft Limit           Hard Limit           Units     \n" +
			"Max locked memory         8388608              unlimited            bytes     \n" +
			"Max open files            1024                 4096                 files     \n",
	)}}
	for _, c := range []struct {
		name       string
		soft, hard int64 // 0 if it is unlimited or unknown
	}{{"Max locked memory", 8388608, 0}, {"Max open files", 1024, 4096}, {"Max nothing", 0, 0}} {
		soft, is := Rlimit(root, c.name)
		hard, also := HardRlimit(root, c.name)
		if soft != c.soft || hard != c.hard || is != (c.soft > 0) || also != (c.hard > 0) {
			t.Errorf("%s: %d (%v) and %d (%v), want %d and %d", c.name, soft, is, hard, also, c.soft, c.hard)
		}
	}
}
