package guest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/internal/testnet"
)

func TestMain(m *testing.M) { testnet.Main(m) }

func TestChoose(t *testing.T) {
	for _, c := range []struct{ name, names, want string }{
		{"none", "linux-image-6.1.0-40-cloud-amd64\nlinux-image-amd64\n", ""},
		{"no name", "", ""},
		{"one", "linux-image-6.12.9+deb12-cloud-amd64", "linux-image-6.12.9+deb12-cloud-amd64"},
		{
			"by number, not by letter", "linux-image-6.12.117+deb12-cloud-amd64 " +
				"linux-image-6.12.9+deb12-cloud-amd64\nlinux-image-6.12.43+deb13-cloud-amd64",
			"linux-image-6.12.117+deb12-cloud-amd64",
		},
		{
			"others", "linux-image-6.12-cloud-amd64 linux-image-6.12.200+deb12-amd64 " +
				"linux-image-6.12.201+deb12-cloud-amd64-dbg linux-image-6.12.202+deb12-cloud-amd64-unsigned " +
				"linux-image-6.12.203+deb12-cloud-arm64 linux-image-6.12.5-cloud-amd64", "linux-image-6.12.5-cloud-amd64",
		},
		{
			"no number", "linux-image-6.12.99999999999999999999-cloud-amd64 linux-image-6.12.1-cloud-amd64",
			"linux-image-6.12.1-cloud-amd64",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := choose(c.names, Usual); got != c.want {
				t.Errorf("choose(%q) = %q, want %q", c.names, got, c.want)
			}
		})
	}
}

// Each series has its own kernels.
func TestChooseOldest(t *testing.T) {
	const names = "linux-image-6.1.0-9-cloud-amd64 linux-image-6.1.0-56-cloud-amd64 linux-image-6.12.117+deb12-cloud-amd64 " +
		"linux-image-6.1.0-57-amd64 linux-image-6.1.0-58-cloud-amd64-dbg"
	for series, want := range map[string]string{
		Oldest: "linux-image-6.1.0-56-cloud-amd64", Usual: "linux-image-6.12.117+deb12-cloud-amd64",
	} {
		if got := choose(names, series); got != want {
			t.Errorf("%s: %q, want %q", series, got, want)
		}
	}
	if _, err := Prepare(t.Context(), t.TempDir(), "5.10", func(string) {}); err == nil ||
		!strings.Contains(err.Error(), `unknown kernel "5.10" of a guest (known: 6.12, 6.1)`) {
		t.Error(err)
	}
}

func TestLibraries(t *testing.T) {
	got := libraries("/usr/bin/a:\n\tlinux-vdso.so.1 (0x00007ffc)\n\tlibmnl.so.0 => /lib/x86_64-linux-gnu/libmnl.so.0 " +
		"(0x00007f)\n" +
		"\t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n\tlibgone.so => not found\n/usr/bin/busybox:\n\tnot a dynamic " +
		"executable\n\tlib b.so => /opt/a b/lib b.so (0x01)\n")
	want := []string{"/lib/x86_64-linux-gnu/libmnl.so.0", "/lib64/ld-linux-x86-64.so.2", "/opt/a b/lib b.so"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func FuzzLibraries(f *testing.F) {
	f.Add("\tlibmnl.so.0 => /lib/x86_64-linux-gnu/libmnl.so.0 (0x00007f)\n")
	f.Fuzz(func(t *testing.T, ldd string) {
		for _, name := range libraries(ldd) {
			if !filepath.IsAbs(name) || strings.Contains(name, "\n") {
				t.Errorf("a library at %q", name)
			}
		}
	})
}

func TestConsole(t *testing.T) {
	up := "[    6.887941] nettoll-guest: up\r\n"
	for _, c := range []struct {
		name     string
		said     string
		isUp     bool
		ended    bool
		status   int
		panicked string
	}{
		{"nothing", "", false, false, 0, ""},
		{"a kernel", "[    0.028000] tsc: Unable to calibrate\r\n", false, false, 0, ""},
		{"up", up, true, false, 0, ""},
		{"twice", up + up, true, false, 0, ""},
		{"well", up + "[   11.2] nettoll-guest: exit 0\r\n", true, true, 0, ""},
		{"not well", up + "[   11.2] nettoll-guest: exit 143\r\n", true, true, 143, ""},
		{
			"the first status holds", up + "[   11.2] nettoll-guest: exit 3\n[   11.3] nettoll-guest: exit 0\n", true, true, 3,
			"",
		},
		{"half a status", up + "[   11.2] nettoll-guest: exit 1", true, false, 0, ""},
		{"no status", up + "[   11.2] nettoll-guest: exit 300\n[   11.3] nettoll-guest: exit\n[   11.3] nettoll-guest: " +
			"exit -1\n", true, false, 0, ""},
		{"a status too early", "[    1.2] nettoll-guest: exit 0\n", false, false, 0, ""},
		{
			"a program says so", up + "nettoll-guest: exit 0\nKernel panic - not syncing: no\nx [1.0] nettoll-guest: exit 0\n",
			true, false, 0, "",
		},
		{"panic", up + "[   48.0] Kernel panic - not syncing: Fatal exception in interrupt\r\n[   48.1] Kernel Offset: " +
			"disabled\r\n", true, false, 0, "Fatal exception in interrupt"},
		{
			"panic after the end", up +
				"[   11.2] nettoll-guest: exit 0\n[   11.3] Kernel panic - not syncing: sysrq triggered crash\n", true, true, 0,
			"sysrq triggered crash",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			var whole, torn console
			_, _ = whole.Write([]byte(c.said))
			for _, b := range []byte(c.said) {
				_, _ = torn.Write([]byte{b})
			}
			for _, got := range []*console{&whole, &torn} {
				status, ended, panicked := got.result()
				if status != c.status || ended != c.ended || panicked != c.panicked || closed(got.up()) != c.isUp {
					t.Errorf("got status %d, ended %t, panicked %q, up %t", status, ended, panicked, closed(got.up()))
				}
				if want := strings.TrimSuffix(strings.ReplaceAll(c.said, "\r", ""), "\n"); got.String() != want {
					t.Errorf("it keeps %q, want %q", got.String(), want)
				}
			}
		})
	}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestConsoleForgets(t *testing.T) {
	var c console
	for range 10 * recent {
		_, _ = c.Write([]byte(strings.Repeat("long ", longest) + "\n"))
	}
	lines := strings.Split(c.String(), "\n")
	if len(lines) != recent || len(lines[0]) != longest {
		t.Errorf("it keeps %d lines of %d bytes, want %d of %d", len(lines), len(lines[0]), recent, longest)
	}
}

func FuzzConsole(f *testing.F) {
	f.Add([]byte("[    6.887941] nettoll-guest: up\r\n[    7.0] nettoll-guest: exit 3\r\n[    8.0] Kernel panic - not " +
		"syncing: x\n"))
	f.Fuzz(func(t *testing.T, said []byte) {
		var c console
		if n, err := c.Write(said); n != len(said) || err != nil {
			t.Fatal(n, err)
		}
		if status, ended, _ := c.result(); status < 0 || status > 255 || ended && !closed(c.up()) {
			t.Errorf("status %d, ended %t", status, ended)
		}
		if len(c.String()) > (recent+1)*(longest+1) {
			t.Errorf("it keeps %d bytes", len(c.String()))
		}
	})
}

// Another implementation of the format can read what the kernel can unpack.
func TestArchive(t *testing.T) {
	from := t.TempDir()
	for name, content := range map[string]string{
		"program": "#!/bin/sh\n", "data/one": "1", "data/deep/two": "22", "data/empty": "",
	} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(from, name)), 0o755),
			os.WriteFile(filepath.Join(from, name), []byte(content), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(from, "program"), 0o755); err != nil {
		t.Fatal(err)
	}
	var a Archive
	a.Dir("/tmp/", 0o700)
	a.Data("etc/hosts", 0o644, "127.0.0.1 localhost\n")
	a.Link("bin", "usr/bin")
	a.Link("bin", "elsewhere")
	if err := errors.Join(a.File("usr/bin/program", filepath.Join(from, "program")),
		a.Tree("src", filepath.Join(from, "data"))); err != nil {
		t.Fatal(err)
	}
	if err := a.File("usr/bin", from); err == nil {
		t.Error("a directory is taken for a file")
	}
	if err := a.File("gone", filepath.Join(from, "gone")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
	var written bytes.Buffer
	if err := a.Write(&written); err != nil {
		t.Fatal(err)
	}
	if written.Len()%4 != 0 {
		t.Errorf("the archive has %d bytes: another cannot follow", written.Len())
	}
	testnet.NotInGuest(t, "its cpio is busybox's, which is another program")
	testnet.Skip(t, needs("cpio"))
	to := t.TempDir()
	cmd := exec.Command("cpio", "-idm", "--quiet")
	cmd.Dir, cmd.Stdin = to, &written
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Fatalf("cpio: %v: %s", err, out)
	}
	got := map[string]string{}
	err := filepath.Walk(to, func(name string, info os.FileInfo, err error) error {
		if err != nil || name == to {
			return err
		}
		text := info.Mode().String()
		switch {
		case info.Mode().IsRegular():
			content, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			text += " " + string(content)
		case info.Mode()&os.ModeSymlink != 0:
			target, err := os.Readlink(name)
			if err != nil {
				return err
			}
			text += " " + target
		}
		below, err := filepath.Rel(to, name)
		got[below] = text
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"tmp": "drwx------", "etc": "drwxr-xr-x", "etc/hosts": "-rw-r--r-- 127.0.0.1 localhost\n",
		"bin": "Lrwxrwxrwx usr/bin",
		"usr": "drwxr-xr-x", "usr/bin": "drwxr-xr-x", "usr/bin/program": "-rwxr-xr-x #!/bin/sh\n",
		"src": "drwxr-xr-x", "src/one": "-rw-r--r-- 1", "src/empty": "-rw-r--r-- ", "src/deep": "drwxr-xr-x",
		"src/deep/two": "-rw-r--r-- 22",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Files for which a guest has no room are refused before it boots.
func TestFits(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		programs, added int64
		memory          uint64
		want            string
	}{
		{0, 0, kept, ""},
		{400 * mib, 200 * mib, kept + 1800*mib, ""},
		{
			400 * mib, 200*mib + 1, kept + 1800*mib, "its files are too large: 400 MiB of programs and modules and 200 MiB " +
				"of tests; the limit is 600 MiB with 1928 MiB of memory (test fewer packages at a time, or give guests more " +
				"memory)",
		},
		{1, 0, kept / 2, "its files are too large"},
	} {
		err := fits(c.programs, c.added, c.memory)
		if (err == nil) != (c.want == "") || err != nil && !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("fits(%d, %d, %d): %v, want %q", c.programs, c.added, c.memory, err, c.want)
		}
	}
	root := filepath.Join(t.TempDir(), "root.cpio")
	if err := os.WriteFile(root, make([]byte, mib), 0o644); err != nil {
		t.Fatal(err)
	}
	var files Archive
	files.Data("test", 0o755, strings.Repeat("x", mib))
	for memory, want := range map[uint64]bool{kept + 5*mib: false, kept + 7*mib: true} {
		f, err := assemble(Spec{Image: Image{Root: root}, Files: &files, Memory: memory})
		if (err == nil) != want {
			t.Errorf("2 MiB of files in a guest with %d bytes of memory: %v", memory, err)
		}
		if err == nil {
			_ = f.Close()
		}
	}
}

func TestAlone(t *testing.T) {
	name := fmt.Sprintf("@nettoll-guest-test-%d", os.Getpid())
	release, err := alone(t.Context(), name, func() { t.Error("the first waits") })
	if err != nil {
		t.Fatal(err)
	}
	waits, second := make(chan bool, 10), make(chan error)
	go func() {
		release, err := alone(t.Context(), name, func() { waits <- true })
		if err == nil {
			err = release()
		}
		second <- err
	}()
	<-waits
	select {
	case err := <-second:
		t.Fatalf("the second does not wait: %v", err)
	default:
	}
	if err := errors.Join(release(), <-second); err != nil || len(waits) > 0 {
		t.Errorf("%v, and said that it waits %d times more", err, len(waits))
	}
	stopped, cancel := context.WithCancelCause(t.Context())
	release, err = alone(t.Context(), name, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = release() }()
	cancel(errors.New("enough"))
	if _, err := alone(stopped, name, func() {}); err == nil || !strings.Contains(err.Error(), "enough") {
		t.Errorf("who is not to wait any more gets %v", err)
	}
}
