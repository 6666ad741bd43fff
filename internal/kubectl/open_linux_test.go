package kubectl

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/linux/process"
)

// left lists the directories of sockets.
func left(t *testing.T) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(os.TempDir(), temporary+"*"))
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

func TestOpen(t *testing.T) {
	s := serve(t, versioned(http.NotFound))
	for name, want := range map[string][2]string{"": {"here", "space"}, "there": {"there", "space"}} {
		o := s.options(t)
		o.Context = name
		c, err := Open(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		if got := [2]string{c.Context(), c.Namespace()}; got != want || c.Version() != "v1.35.4" {
			t.Errorf("context and namespace %q, version %q, want %q, v1.35.4", got, c.Version(), want)
		}
		if paths := left(t); len(paths) > 0 {
			t.Errorf("the directory of the socket is there: %v", paths)
		}
		pid := c.proxy.Process.Pid
		for range 2 {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
		if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("the proxy lives: %v", err)
		}
		if err := c.Get(t.Context(), "/x", nil); !errors.Is(err, errClosed) {
			t.Errorf("a request of a closed client: %v", err)
		}
		if _, err := c.Exec(t.Context(), Target{}); !errors.Is(err, errClosed) {
			t.Errorf("a program of a closed client: %v", err)
		}
	}
}

// A context without a namespace means "default", and a server with a path needs a flag.
func TestOpenDefaults(t *testing.T) {
	s := serve(t, versioned(http.NotFound))
	s.Namespace, s.URL = "", "https://cluster.test/k8s/c1"
	c, err := Open(t.Context(), s.options(t))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if got := c.Namespace(); got != "default" {
		t.Errorf("namespace %q", got)
	}
	if args := strings.Join(c.proxy.Args, " "); !strings.Contains(args, "--append-server-path=true") {
		t.Errorf("started as %q", args)
	}
}

// The path of a socket may be longer than the kernel's limit.
func TestOpenLongPath(t *testing.T) {
	s := serve(t, versioned(http.NotFound))
	long := filepath.Join(t.TempDir(), strings.Repeat("long", 50))
	if err := os.Mkdir(long, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", long)
	c, err := Open(t.Context(), s.options(t))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if entries, err := os.ReadDir(long); err != nil || len(entries) > 0 {
		t.Errorf("left: %v, %v", entries, err)
	}
}

func TestOpenFails(t *testing.T) {
	never := func(http.ResponseWriter, *http.Request) { t.Error("the server was asked") }
	const silent, hangs = "silent", "hangs" // Open ends only because its time is up
	for _, tt := range []struct {
		name   string
		handle http.HandlerFunc
		change func(*settings, *Options)
		want   string
		is     func(error) bool
	}{
		{
			"no kubectl", never, func(_ *settings, o *Options) { o.Program = "kubectl-of-nobody" },
			`reach a Kubernetes cluster: not supported here: missing program "kubectl-of-nobody"`, func(err error) bool {
				_, ok := errors.AsType[*linux.UnsupportedError](err)
				return ok && strings.Contains(err.Error(), "https://kubernetes.io/docs/tasks/tools/")
			},
		},
		{
			"unknown context", never, func(_ *settings, o *Options) { o.Context = "elsewhere" },
			`kubectl has no context "elsewhere" (valid: here, there)`, nil,
		},
		{
			"no current context", never, func(s *settings, _ *Options) { s.Current = "" },
			"current-context must exist in order to minify (hint: choose one of here, there)", nil,
		},
		{
			"no configuration", never, func(s *settings, _ *Options) { s.Current, s.Contexts = "", nil },
			"kubectl has no configuration of a cluster (hint: set KUBECONFIG", nil,
		},
		{
			"old", never, func(s *settings, _ *Options) { s.Unknown = "--reject-paths" },
			"start kubectl proxy: unknown flag: --reject-paths (hint: this kubectl is too old", nil,
		},
		{
			"broken", never, func(s *settings, _ *Options) { s.Broken = "error: it is the wrong day" },
			"start kubectl proxy: exit status 1: it is the wrong day", nil,
		},
		{
			hangs, never, func(s *settings, _ *Options) { s.Hang = true }, "start kubectl proxy: context deadline exceeded",
			func(err error) bool { return errors.Is(err, context.DeadlineExceeded) },
		},
		{"unreachable", func(w http.ResponseWriter, _ *http.Request) {
			proxyError(w, "dial tcp 192.0.2.1:6443: connect: connection refused")
		}, nil, `context "here": cannot reach the API server https://cluster.test:6443: dial tcp 192.0.2.1:6443: connect: ` +
			"connection refused", func(err error) bool { _, ok := errors.AsType[*UnreachableError](err); return ok }},
		{"certificate", func(w http.ResponseWriter, _ *http.Request) {
			proxyError(w, "tls: failed to verify certificate: x509: certificate signed by unknown authority")
		}, nil, "signed by unknown authority", nil},
		{
			silent, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, nil,
			"cannot reach the API server https://cluster.test:6443: no answer within 4s", nil,
		},
		{"credentials", func(w http.ResponseWriter, _ *http.Request) {
			refuse(w, http.StatusUnauthorized, "Unauthorized", "Unauthorized")
		}, nil, `the API server https://cluster.test:6443 refuses the credentials of context "here"`, func(err error) bool {
			return code(err) == http.StatusUnauthorized
		}},
		{
			"another server", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, "<html>") }, nil,
			"the answer of the API server: invalid character '<'", nil,
		},
		{
			"another API", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, map[string]any{}) }, nil,
			"does not answer like an API server", nil,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := serve(t, tt.handle)
			var o Options
			if tt.change != nil {
				tt.change(&s, &o)
			}
			with := s.options(t)
			if o.Program != "" {
				with.Program = o.Program
			}
			with.Context = o.Context
			limit := short()
			if tt.name == silent || tt.name == hangs {
				limit.open = 4 * time.Second
			}
			begun := time.Now()
			c, err := open(t.Context(), with, limit)
			if c != nil {
				_ = c.Close()
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) || tt.is != nil && !tt.is(err) {
				t.Errorf("got  %v\nwant %s", err, tt.want)
			}
			if d := time.Since(begun); d > 2*limit.open {
				t.Errorf("it took %v", d)
			}
			if paths := left(t); len(paths) > 0 {
				t.Errorf("left: %v", paths)
			}
		})
	}
}

func TestOpenIsCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { cancel(); <-r.Context().Done() }))
	if _, err := Open(ctx, s.options(t)); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// A proxy that ends is named in the errors of requests, with what it said last.
func TestProxyEnds(t *testing.T) {
	c := connect(t, http.NotFound)
	if err := c.proxy.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-c.ended
	if err := c.Get(t.Context(), "/x", nil); err == nil || !strings.Contains(err.Error(), "kubectl proxy ended: signal: killed") {
		t.Errorf("got %v", err)
	}
}

// When a process is killed, its proxy ends, and no file is left.
func TestKilled(t *testing.T) {
	text, err := json.Marshal(serve(t, versioned(http.NotFound)))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe", killedCommand, string(text))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := process.Start(cmd, process.Options{}); err != nil {
		t.Fatal(err)
	}
	var pid int
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatalf("it says %q: %v", line, err)
	} else if _, err := fmt.Sscan(line, &pid); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, 0); err != nil {
		t.Fatalf("the proxy does not live: %v", err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	soon(t, "the end of the proxy", func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return err != nil || strings.Contains(string(stat), ") Z ") // another process reaps it
	})
	if paths := left(t); len(paths) > 0 {
		t.Errorf("left: %v", paths)
	}
}

// A directory that a process left when it was killed at the wrong moment is removed by the next one; a new one is not.
func TestSweep(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	var dirs [2]string
	for i := range dirs {
		dir := filepath.Join(os.TempDir(), fmt.Sprint(temporary, i))
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "socket"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		dirs[i] = dir
	}
	old := time.Now().Add(-2 * stale)
	if err := os.Chtimes(dirs[0], old, old); err != nil {
		t.Fatal(err)
	}
	sweep()
	if paths := left(t); len(paths) != 1 || paths[0] != dirs[1] {
		t.Errorf("left %v, want %s", paths, dirs[1])
	}
}
