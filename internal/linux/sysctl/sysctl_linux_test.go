package sysctl_test

import (
	"errors"
	"io/fs"
	"testing"

	"github.com/nettoll/nettoll/internal/linux/sysctl"
)

func TestPath(t *testing.T) {
	for _, c := range []struct{ key, want string }{
		{"net.ipv4.ip_forward", "/proc/sys/net/ipv4/ip_forward"},
		{"net.ipv4.conf.eth0/100.rp_filter", "/proc/sys/net/ipv4/conf/eth0.100/rp_filter"},
		{"", ""},
		{"net..ipv4", ""},
		{"net.//.//.//.etc.passwd", ""},
		{".net", ""},
		{"net.ipv4\x00", ""},
	} {
		got, err := sysctl.Path(c.key)
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("Path(%q) = %q, %v, want %q", c.key, got, err, c.want)
		}
	}
}

func TestRead(t *testing.T) {
	if got, err := sysctl.Read("kernel.ostype"); err != nil || got != "Linux" {
		t.Errorf("kernel.ostype is %q, %v, want Linux", got, err)
	}
	if _, err := sysctl.Read("net.nettoll.none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a variable that does not exist: %v, want %v", err, fs.ErrNotExist)
	}
	if err := sysctl.Write("net.nettoll.none", "1"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a variable that does not exist: %v, want %v", err, fs.ErrNotExist)
	}
	if _, err := sysctl.Change("net.nettoll.none", "1"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a variable that does not exist: %v, want %v", err, fs.ErrNotExist)
	}
	// A read-only variable can be left unchanged.
	if was, err := sysctl.Change("kernel.ostype", "Linux"); was != "Linux" || err != nil {
		t.Errorf("kernel.ostype was %q, %v, want Linux", was, err)
	}
	if was, err := sysctl.Change("kernel.ostype", "other"); was != "Linux" || !errors.Is(err, fs.ErrPermission) {
		t.Errorf("kernel.ostype was %q, %v, want Linux and %v", was, err, fs.ErrPermission)
	}
	if got, want := sysctl.Normal("4096\t131072  6291456\n"), "4096 131072 6291456"; got != want {
		t.Errorf("Normal gives %q, want %q", got, want)
	}
}
