package testcni

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/nettoll/nettoll/internal/testprogram"
)

const (
	home  = "internal/testcni"
	cache = "testcni"
	// FlanneldVersion is the version of flanneld that flanneld/go.mod names; the daemon only prints it.
	FlanneldVersion = "v0.28.4"
)

// FlanneldProgram is Flannel's daemon. Building it takes minutes once.
func FlanneldProgram() testprogram.Program {
	return testprogram.Program{
		Folder: home + "/flanneld", Package: "github.com/flannel-io/flannel", Cache: cache, File: "flanneld-",
		What: "flanneld", Minutes: "five minutes", Version: FlanneldVersion,
		Linking: "-s -w -X github.com/flannel-io/flannel/pkg/version.Version=" + FlanneldVersion,
		Cgo:     true, // its backend udp, which nettoll does not use
	}
}

// FlannelPlugin is the CNI plugin flannel.
func FlannelPlugin() testprogram.Program { return plugin("flannel", home+"/flannel", "meta/flannel") }

func plugin(name, folder, path string) testprogram.Program {
	return testprogram.Program{
		Folder: folder, Package: "github.com/containernetworking/plugins/plugins/" + path, Cache: cache, File: name + "-",
		What: "the CNI plugin " + name, Minutes: "a minute", Linking: "-s -w",
	}
}

// Flanneld returns the path of Flannel's daemon. Building it takes minutes once: the test is one of make test-slow.
func Flanneld(t testing.TB) string {
	t.Helper()
	return build(t, FlanneldProgram())
}

// Plugins returns a folder with the CNI plugin of that name: "flannel" or "tap".
func Plugins(t testing.TB, name string) string {
	t.Helper()
	var p testprogram.Program
	switch name {
	case "flannel":
		p = FlannelPlugin()
	case "tap":
		p = plugin(name, home+"/tap", "main/tap")
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
	path, err := p.Build(t.Context(), func(what string) { t.Log(what) })
	if err != nil {
		t.Fatal(err)
	}
	return path
}
