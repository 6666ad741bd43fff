package kubectl

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nettoll/nettoll/internal/testkube"
)

func TestMain(m *testing.M) {
	switch {
	case os.Getenv(standIn) != "":
		os.Exit(kubectl(os.Args[1:]))
	case len(os.Args) > 1 && os.Args[1] == killedCommand:
		os.Exit(beKilled())
	}
	testkube.Main(m)
}

// standIn is a variable with the settings of a program in the place of kubectl: it passes connections on to a server
// of the test. The tests of a cluster run kubectl itself.
const standIn = "NETTOLL_KUBECTL_STANDIN"

type settings struct {
	Contexts  []string
	Current   string
	Namespace string
	URL       string // of the server, in the configuration
	Server    string // the path of its socket
	Unknown   string // a flag that it does not know
	Broken    string // what it says instead of starting
	Hang      bool   // it does not listen
}

// kubectl is the main function of that program.
func kubectl(args []string) int {
	var s settings
	if err := json.Unmarshal([]byte(os.Getenv(standIn)), &s); err != nil {
		return fail(err.Error())
	}
	flags := map[string]string{}
	for _, a := range args {
		if name, value, ok := strings.Cut(a, "="); ok {
			flags[name] = value
		}
	}
	for name := range flags {
		if name == s.Unknown {
			return fail("unknown flag: " + name + "\nSee 'kubectl proxy --help' for usage.")
		}
	}
	switch strings.Join(args[:min(2, len(args))], " ") {
	case "config get-contexts":
		for _, name := range s.Contexts {
			fmt.Println(name)
		}
		return 0
	case "config view":
		name, given := flags["--context"]
		switch {
		case !given && s.Current == "":
			return fail("error: current-context must exist in order to minify")
		case given && !slices.Contains(s.Contexts, name):
			return fail("error: cannot locate context " + name)
		case !given:
			name = s.Current
		}
		type object = map[string]any
		_ = json.NewEncoder(os.Stdout).Encode(object{
			"current-context": s.Current,
			"clusters":        []object{{"name": "c", "cluster": object{"server": s.URL}}},
			"contexts":        []object{{"name": name, "context": object{"cluster": "c", "namespace": s.Namespace}}},
		})
		return 0
	}
	if args[0] != "proxy" || flags["--unix-socket"] == "" || flags["--reject-paths"] != "^$" {
		return fail(fmt.Sprintf("error: unexpected arguments %q", args))
	}
	if s.Broken != "" {
		return fail(s.Broken)
	}
	if s.Hang {
		time.Sleep(time.Minute)
	}
	l, err := net.Listen("unix", flags["--unix-socket"])
	if err != nil {
		return fail(err.Error())
	}
	for {
		from, err := l.Accept()
		if err != nil {
			return fail(err.Error())
		}
		go func() {
			defer from.Close()
			to, err := net.Dial("unix", s.Server)
			if err != nil {
				return
			}
			defer to.Close()
			done := make(chan struct{}, 2)
			for _, pair := range [][2]net.Conn{{from, to}, {to, from}} {
				go func() { _, _ = io.Copy(pair[0], pair[1]); done <- struct{}{} }()
			}
			<-done // as in kubectl, the end of one direction ends both
		}()
	}
}

func fail(why string) int {
	fmt.Fprintln(os.Stderr, why)
	return 1
}

// serve starts a server and returns the settings to reach it.
func serve(t *testing.T, handler http.Handler) settings {
	t.Helper()
	path := filepath.Join(t.TempDir(), "server")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(handler)
	s.Listener = l
	s.Start()
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return settings{
		Contexts: []string{"here", "there"}, Current: "here", Namespace: "space", URL: "https://cluster.test:6443", Server: path,
	}
}

// options are those of the program in the place of kubectl.
func (s settings) options(t *testing.T) Options {
	t.Helper()
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return Options{Program: program, Env: append(os.Environ(), standIn+"="+string(text))}
}

// short are limits for tests. A client that has to be opened has time for it, also on a busy machine.
func short() limits {
	return limits{
		open: 20 * time.Second, repeat: 2 * time.Second, ping: 50 * time.Millisecond, quiet: 500 * time.Millisecond,
		ask: time.Second, unread: 500 * time.Millisecond,
	}
}

// connect opens a client to a server whose version is answered.
func connect(t *testing.T, handle http.HandlerFunc) *Client {
	t.Helper()
	c, err := open(t.Context(), serve(t, versioned(handle)).options(t), short())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// versioned answers for /version.
func versioned(handle http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/version" {
			answer(w, http.StatusOK, map[string]any{"gitVersion": "v1.35.4"})
			return
		}
		handle(w, r)
	})
}

// answer sends an object as the API server does.
func answer(w http.ResponseWriter, code int, object any) {
	w.Header().Set("Audit-Id", "a")
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(object)
}

// refuse sends a status as the API server does.
func refuse(w http.ResponseWriter, code int, reason, message string) {
	answer(w, code, map[string]any{
		"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": message,
	})
}

// proxyError sends what kubectl says of a request that failed.
func proxyError(w http.ResponseWriter, why string) {
	http.Error(w, why, http.StatusInternalServerError)
}

// soon waits until a condition holds.
func soon(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			buf := make([]byte, 1<<20)
			t.Fatalf("%s did not come about\n%s", what, buf[:runtime.Stack(buf, true)])
		}
	}
}

// goroutines returns how many run in functions of this package.
func goroutines() int {
	buf := make([]byte, 1<<20)
	n := 0
	for one := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		if strings.Contains(one, "kubectl.(*Process)") || strings.Contains(one, "kubectl.(*Client)") ||
			strings.Contains(one, "coder/websocket") {
			n++
		}
	}
	return n
}

// killedCommand has the test program open a client and wait to be killed.
const killedCommand = "be-killed"

func beKilled() int {
	var s settings
	if err := json.Unmarshal([]byte(os.Args[2]), &s); err != nil {
		return fail(err.Error())
	}
	text, _ := json.Marshal(s)
	c, err := open(context.Background(), Options{
		Program: "/proc/self/exe", Env: append(os.Environ(), standIn+"="+string(text)),
	}, short())
	if err != nil {
		return fail(err.Error())
	}
	fmt.Println(c.proxy.Process.Pid)
	_, _ = io.Copy(io.Discard, os.Stdin)
	return 1
}

// signalStop stops the proxy of a client, so that nothing passes any more.
func signalStop(t *testing.T, c *Client) {
	t.Helper()
	if err := c.proxy.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
}
