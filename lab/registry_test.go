package lab

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nettoll/nettoll/internal/linux/process"
	"github.com/nettoll/nettoll/internal/testnet"
)

func TestMain(m *testing.M) { testnet.Main(m) }

func registry(t *testing.T) *Registry {
	t.Helper()
	r, err := OpenRegistry(filepath.Join(t.TempDir(), "runtime", "nettoll", "labs"))
	if err == nil {
		if list := names(t, r); len(list) > 0 {
			t.Errorf("a registry that nobody has made has %q", list)
		}
		err = r.make()
	}
	testnet.Skip(t, err)
	return r
}

func names(t *testing.T, r *Registry) []string {
	t.Helper()
	all, err := r.Entries()
	if err != nil {
		t.Fatal(err)
	}
	list := []string{}
	for _, e := range all {
		list = append(list, e.Name)
	}
	return list
}

func TestClaim(t *testing.T) {
	r := registry(t)
	dir, lock, err := r.Claim("a")
	testnet.Skip(t, err)
	if _, _, err := r.Claim("a"); err == nil || !strings.Contains(err.Error(), `a lab "a" is being built already`) {
		t.Errorf("a name is claimed twice: %v", err)
	}
	since := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	if err := write(dir, entryFile, Entry{Name: "a", ID: "bridge/same-host/1", Since: since}); err != nil {
		t.Fatal(err)
	}
	_, _, err = r.Claim("a")
	if taken, ok := errors.AsType[*TakenError](err); !ok || taken.ID != "bridge/same-host/1" {
		t.Errorf("Claim = %v, want that the name is taken", err)
	}
	if _, other, err := r.Claim("b(x=1)"); err != nil {
		t.Error(err)
	} else {
		defer other.Close()
	}
	if diff := cmp.Diff([]string{"a", "b(x=1)"}, names(t, r)); diff != "" {
		t.Error(diff)
	}
	if _, err := r.Choose(""); err == nil || !strings.Contains(err.Error(), "2 labs stand: say which (a, b(x=1))") {
		t.Errorf("Choose = %v", err)
	}
	if e, err := r.Choose("a"); err != nil || !e.Since.Equal(since) {
		t.Errorf("Choose = %+v, %v", e, err)
	}
	if _, err := r.Choose("b(x=1)"); err == nil || !strings.Contains(err.Error(), "is still being built") {
		t.Errorf("Choose = %v", err)
	}
	// The owner of the lock has ended.
	_ = lock.Close()
	if diff := cmp.Diff([]string{"b(x=1)"}, names(t, r)); diff != "" {
		t.Error(diff)
	}
	if left, _ := filepath.Glob(filepath.Join(r.path, ".*")); len(left) > 0 {
		t.Errorf("%q is left", left)
	}
}

// If many processes want a name at the same time, one gets it, even if an ended lab has left it behind.
func TestClaimTogether(t *testing.T) {
	r := registry(t)
	_, lock, err := r.Claim("a")
	testnet.Skip(t, err)
	_ = lock.Close()
	var group sync.WaitGroup
	var mu sync.Mutex
	var locks []*os.File
	for range 8 {
		group.Go(func() {
			if _, lock, err := r.Claim("a"); err == nil {
				mu.Lock()
				locks = append(locks, lock)
				mu.Unlock()
			}
		})
	}
	group.Wait()
	if len(locks) != 1 {
		t.Errorf("%d have the name, want one", len(locks))
	}
	if diff := cmp.Diff([]string{"a"}, names(t, r)); diff != "" {
		t.Error(diff)
	}
	for _, l := range locks {
		_ = l.Close()
	}
}

// An owner that ends late does not remove a lab that another owner has since made.
func TestDiscardOfAnother(t *testing.T) {
	r := registry(t)
	_, first, err := r.Claim("a")
	testnet.Skip(t, err)
	if err := r.discard("a", first); err != nil {
		t.Fatal(err)
	}
	_, second, err := r.Claim("a")
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	if err := r.discard("a", first); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{"a"}, names(t, r)); diff != "" {
		t.Error(diff)
	}
}

// A directory that a killed process left half made is removed when it is old enough to be sure.
func TestHalfMade(t *testing.T) {
	r := registry(t)
	for name, age := range map[string]time.Duration{".new-1": 2 * halfMade, ".new-2": 0} {
		dir := filepath.Join(r.path, name)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(dir, time.Time{}, time.Now().Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	if list := names(t, r); len(list) > 0 {
		t.Errorf("labs %q", list)
	}
	left, _ := filepath.Glob(filepath.Join(r.path, ".*"))
	if diff := cmp.Diff([]string{filepath.Join(r.path, ".new-2")}, left); diff != "" {
		t.Error(diff)
	}
}

// Only its user may access the registry. A registry of another user is not used.
func TestOpenRegistry(t *testing.T) {
	r := registry(t)
	for _, dir := range []string{r.path, filepath.Dir(r.path)} {
		info, err := os.Stat(dir)
		if err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v, %v", dir, info.Mode(), err)
		}
	}
	home := filepath.Join(t.TempDir(), "nettoll")
	if err := os.Symlink(r.path, home); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenRegistry(filepath.Join(home, "labs")); err == nil ||
		!strings.Contains(err.Error(), "is not a directory") {
		t.Errorf("OpenRegistry behind a link = %v", err)
	}
	plain := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(plain, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := (&Registry{path: filepath.Join(plain, "nettoll", "labs")}).Claim("a"); err == nil {
		t.Error("a registry is made below a file")
	}
}

func TestHome(t *testing.T) {
	for _, c := range []struct {
		uid     int
		runtime string
		want    string
	}{
		{0, "/x", "/x/nettoll/labs"},
		{0, "", "/run/nettoll/labs"},
		{4242424, "", "/t/nettoll-4242424/labs"},
		{4242424, "/x", "/x/nettoll/labs"},
	} {
		if got, note := Home(c.uid, c.runtime, "/t"); got != c.want || note != "" {
			t.Errorf("Home(%d, %q) = %q (%s), want %q", c.uid, c.runtime, got, note, c.want)
		}
	}
}

func TestNames(t *testing.T) {
	for _, name := range []string{
		"bridge", "nat(hairpin=true)", "bridge+nftables(rules=1000)", "ü", strings.Repeat("x", maxName),
	} {
		if err := CheckName(name); err != nil {
			t.Error(err)
		}
	}
	for _, name := range []string{
		"", ".", "..", ".x", "-x", "a/b", "a\nb", "a\x1b[2Jb", "a\u202eb", strings.Repeat("x", maxName+1),
	} {
		if err := CheckName(name); err == nil {
			t.Errorf("%q is a name", name)
		}
	}
	for word, want := range map[string]string{
		"bridge": "bridge", "a+b@c": "a+b@c", "nat(x=1)": "'nat(x=1)'", "it's": `'it'\''s'`, "": "",
	} {
		if got := Quote(word); got != want {
			t.Errorf("Quote(%q) = %s, want %s", word, got, want)
		}
	}
}

// Files and locks pass from process to process. Here one process has two descriptions of the same file.
func TestLockIsOfTheDescription(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	open := func() *os.File {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	a, b := open(), open()
	defer b.Close()
	for _, c := range []struct {
		f    *os.File
		want bool
	}{{a, true}, {a, true}, {b, false}} {
		if got, err := process.Lock(c.f); err != nil || got != c.want {
			t.Errorf("Lock = %v, %v, want %v", got, err, c.want)
		}
	}
	_ = a.Close()
	if got, err := process.Lock(b); err != nil || !got {
		t.Errorf("Lock of what was given up = %v, %v", got, err)
	}
}

// Every stack gives a valid name, and a short one without a path its own.
func TestName(t *testing.T) {
	for stack, want := range map[string]string{
		"bridge+nftables(rules=1000)":     "bridge+nftables(rules=1000)",
		"cni(conf=/etc/cni/net.conflist)": "cni(conf=-etc-cni-net.conflist)",
		strings.Repeat("x", maxName+1):    strings.Repeat("x", maxName-3) + "…",
		strings.Repeat("ü", maxName):      strings.Repeat("ü", (maxName-3)/2) + "…",
	} {
		if got := Name(stack); got != want {
			t.Errorf("%s: got %q, want %q", stack, got, want)
		} else if err := CheckName(got); err != nil {
			t.Error(err)
		}
	}
}
