package testkube

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	goruntime "runtime"

	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/linux/cgroup"
)

// Missing returns nil, or a [linux.UnsupportedError] with what this machine lacks for a cluster.
func Missing() error {
	const what = "start a Kubernetes cluster"
	if goruntime.GOOS != "linux" {
		return &linux.UnsupportedError{What: what, Missing: "Linux"}
	}
	if os.Geteuid() != 0 {
		return &linux.UnsupportedError{What: what, Missing: "root", Hint: "the kubelet needs it"}
	}
	if err := cgroup.Makeable(what); err != nil {
		return err
	}
	// The kubelet and kube-proxy start the others by name.
	for _, p := range [][2]string{
		{"go", "golang-go"},
		{"containerd", "containerd"},
		{"ctr", "containerd"},
		{"runc", "runc"},
		{"iptables", "iptables"},
		{"mount", "mount"},
		{"busybox", "busybox-static"},
	} {
		if _, err := exec.LookPath(p[0]); err != nil {
			return &linux.UnsupportedError{
				What: what, Missing: fmt.Sprintf("program %q", p[0]), Hint: "apt-get install " + p[1], Err: err,
			}
		}
	}
	_, err := pluginDir()
	return err
}

// pluginDir returns the directory of CNI plugins: by CNI's own documentation, or in Debian.
func pluginDir() (string, error) {
	var errs []error
	for _, dir := range []string{"/opt/cni/bin", "/usr/lib/cni"} {
		_, err := os.Stat(filepath.Join(dir, "bridge"))
		if err == nil {
			return dir, nil
		}
		errs = append(errs, err)
	}
	return "", &linux.UnsupportedError{
		What: "join pods to a network", Missing: `program "bridge" of CNI`, Hint: "apt-get install containernetworking-plugins",
		Err: errors.Join(errs...),
	}
}
