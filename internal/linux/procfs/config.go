package procfs

import (
	"bufio"
	"compress/gzip"
	"io"
	"os"
	"strings"
)

// KernelOption returns the value of an option of the running kernel: "y", "m", a value, or "n" if it is not set. known
// is false if the kernel has no embedded configuration (CONFIG_IKCONFIG_PROC) and /boot has none for its release.
func KernelOption(name string) (value string, known bool) {
	if f, err := os.Open("/proc/config.gz"); err == nil {
		defer f.Close()
		if z, err := gzip.NewReader(f); err == nil {
			return option(z, name)
		}
	}
	release, _ := uname()
	f, err := os.Open("/boot/config-" + release)
	if err != nil {
		return "", false
	}
	defer f.Close()
	return option(f, name)
}

// option finds an option in a kernel's configuration: "CONFIG_HZ=250", "# CONFIG_KASAN is not set". An option whose
// prerequisites are not set is missing.
func option(r io.Reader, name string) (value string, known bool) {
	s := bufio.NewScanner(r)
	for s.Scan() {
		if v, ok := strings.CutPrefix(s.Text(), name+"="); ok {
			return v, true
		}
	}
	return "n", s.Err() == nil
}
