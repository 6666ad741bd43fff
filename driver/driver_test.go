package driver

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/part"
	"github.com/nettoll/nettoll/traffic"
	"github.com/nettoll/nettoll/workload"
)

// named is a driver with nothing but a name.
type named struct{ program string }

func (n named) Describe() Description {
	return Description{Name: "n", Summary: "a name", Program: n.program, Package: "n-package"}
}
func (named) Serves(workload.Description, part.Params) error        { return nil }
func (named) Trial(workload.Description, part.Params) time.Duration { return time.Second }
func (named) Open(workload.Spec) (traffic.Endpoint, error)          { return nil, errDriver }

// client is a driver without a server.
type client struct{ named }

func (client) Describe() Description { return Description{Name: "c", SourceOnly: true} }

// load is a workload that cannot be opened.
type load struct{ workload.Workload }

func (load) Open(workload.Spec) (traffic.Endpoint, error) { return nil, errLoad }

var errDriver, errLoad = errors.New("the driver's"), errors.New("the workload's")

// The sink of a driver without a server is the workload's.
func TestOpener(t *testing.T) {
	for _, tt := range []struct {
		d    Driver
		side workload.Side
		want error
	}{
		{named{}, workload.Source, errDriver},
		{named{}, workload.Sink, errDriver},
		{client{}, workload.Source, errDriver},
		{client{}, workload.Sink, errLoad},
	} {
		if _, err := Opener(tt.d, load{}, tt.side)(workload.Spec{}); !errors.Is(err, tt.want) {
			t.Errorf("%s of %s: %v, want %v", tt.side, tt.d.Describe().Name, err, tt.want)
		}
	}
}

func TestFind(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	_, err := Find(named{"none"})
	u, ok := errors.AsType[*linux.UnsupportedError](err)
	if !ok || u.Missing != `program "none"` || !strings.Contains(u.Hint, "n-package") {
		t.Errorf("not installed: %v", err)
	}
	version := func(name string) (string, error) {
		return named{name}.Describe().Programs(workload.Source)[0].Version(t.Context())
	}
	if _, err := version("none"); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("version of what is not installed: %v", err)
	}
	for name, tt := range map[string]struct{ script, want, err string }{
		"sockperf": {"echo 'sockperf, version 3.7-no.git'; echo '   compiled 2021-08-23 12:14:23'", "3.7-no.git", ""},
		"iperf3":   {"echo 'iperf 3.12 (cJSON 1.7.15)'; echo 'Linux vm 6.18.44'", "3.12", ""},
		"v":        {"echo v1.2.3,", "1.2.3", ""},
		"silent":   {":", "", "no version in"},
		"broken":   {"exit 3", "", "exit status 3"},
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"+tt.script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		if got, err := Find(named{name}); got != path || err != nil {
			t.Errorf("%s: found %q, %v", name, got, err)
		}
		got, err := version(name)
		if got != tt.want || (err != nil) != (tt.err != "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: version %q, %v, want %q, %q", name, got, err, tt.want, tt.err)
		}
	}
}

// A parameter that a driver does not know is refused unless it has its default.
func TestUnderstands(t *testing.T) {
	w := workload.Description{
		Name: "w", Params: part.List{{Name: "payload", Default: "64"}, {Name: "flows", Default: "1"}},
	}
	d := named{}.Describe()
	if err := d.Understands(w, part.Params{"payload": "28", "flows": "1"}, "payload"); err != nil {
		t.Error(err)
	}
	err := d.Understands(w, part.Params{"payload": "64", "flows": "4"}, "payload")
	if want := `driver n cannot drive w with flows "4" (valid: flows 1)`; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}
