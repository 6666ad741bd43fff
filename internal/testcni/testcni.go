package testcni

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/nettoll/nettoll/internal/testprogram"
)

const (
	home = "internal/testcni"
	// daemonVersion is the version of flanneld that flanneld/go.mod names; the daemon only prints it.
	daemonVersion = "v0.28.4"
)

// Flanneld returns the path of Flannel's daemon. Building it takes minutes once: the test is one of make test-slow.
func Flanneld(t testing.TB) string {
	t.Helper()
	return build(t, testprogram.Program{
		Folder: home + "/flanneld", Package: "github.com/flannel-io/flannel", File: "flanneld-", What: "flanneld",
		Minutes: "five minutes", Version: daemonVersion,
		Linking: "-s -w -X github.com/flannel-io/flannel/pkg/version.Version=" + daemonVersion,
		Cgo:     true, // its backend udp, which nettoll does not use
	})
}

// Plugins returns a folder with the CNI plugin of that name: "flannel" or "tap".
func Plugins(t testing.TB, name string) string {
	t.Helper()
	const of = "github.com/containernetworking/plugins/plugins/"
	p := testprogram.Program{File: name + "-", What: "the CNI plugin " + name, Minutes: "a minute", Linking: "-s -w"}
	switch name {
	case "flannel":
		p.Folder, p.Package = home+"/flannel", of+"meta/flannel"
	case "tap":
		p.Folder, p.Package = home+"/flanneld", of+"main/tap"
	default:
		t.Fatalf("no plugin %q is built here", name)
	}
	dir := t.TempDir()
	if err := os.Symlink(build(t, p), filepath.Join(dir, name)); err != nil {
		t.Fatal(err)
	}
	return dir
}

func build(t testing.TB, p testprogram.Program) string {
	t.Helper()
	p.Cache = "testcni"
	path, err := p.Build(t.Context(), func(what string) { t.Log(what) })
	if err != nil {
		t.Fatal(err)
	}
	return path
}
