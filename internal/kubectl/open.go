package kubectl

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/linux/owned"
	"github.com/nettoll/nettoll/internal/linux/process"
)

// Options say which cluster to reach. The zero value is that of the user's current context.
type Options struct {
	// Context is the name of a context in the user's configuration; "" for the current one.
	Context string
	// Program is the name or path of kubectl; "" for "kubectl". A name is looked up in the PATH of this process. If it is
	// a script, it has to become kubectl (exec): only the process that was started is killed with this one.
	Program string
	// Env is the whole environment of kubectl, such as KUBECONFIG; nil for that of this process.
	Env []string
}

// A Client is a connection to the API server of a cluster. Its methods may be called by several goroutines.
type Client struct {
	program   string
	env       []string
	context   string
	namespace string
	server    string
	version   string

	proxy  *exec.Cmd
	said   process.Tail  // what the proxy wrote
	ended  chan struct{} // closed when the proxy has ended
	socket *os.File
	http   *http.Client
	limits limits

	dialing sync.RWMutex // held while a connection is made; its address is the number of the open socket
	closing sync.Once
	life    context.Context // ends with Close
	end     context.CancelFunc
	hush    atomic.Pointer[time.Time] // until then nothing is pinged; nil: anything may be
}

// limits are how long a client waits.
type limits struct {
	open   time.Duration // for the answers to Open, all together
	repeat time.Duration // from the first failure of a request until it is no longer repeated
	ping   time.Duration // between two pings of a connection to a program
	quiet  time.Duration // from a ping until a connection without any answer is lost
	ask    time.Duration // for an answer of the API server to the question whether it is there
	unread time.Duration // while one output of a program is not read, and the reader of the other waits
}

func usual() limits {
	return limits{
		open: 5 * time.Second, repeat: 30 * time.Second, ping: 2 * time.Second, quiet: 5 * time.Second, ask: 2 * time.Second,
		unread: time.Minute,
	}
}

const (
	// temporary begins the names of the directories in which sockets are made.
	temporary = "nettoll-kubectl-"
	// stale is the age from which such a directory belongs to a process that was killed: Open takes a few seconds.
	stale = time.Minute
	// orphan is how long to wait for the output of processes that kubectl has left behind, such as a credential plugin.
	orphan = 100 * time.Millisecond
	// poll is the time between two tries to reach the proxy's socket, which is there within 0.2 s.
	poll = 5 * time.Millisecond
	// base is the URL of the proxy: it accepts requests to this host (proxy.DefaultHostAcceptRE,
	// k8s.io/kubectl/pkg/proxy).
	base = "http://localhost"
)

// Open starts kubectl and asks the API server for its version. Within five seconds it returns a client, or an error
// that says what is wrong. If kubectl is not installed, the error is a [linux.UnsupportedError]. An API server that
// cannot be reached is an [UnreachableError], and one that refuses the user's credentials a [StatusError]. The context
// bounds Open only. [Client.Close] must be called.
func Open(ctx context.Context, o Options) (*Client, error) { return open(ctx, o, usual()) }

func open(ctx context.Context, o Options, l limits) (_ *Client, err error) {
	name := cmp.Or(o.Program, "kubectl")
	program, err := exec.LookPath(name)
	if err != nil {
		return nil, &linux.UnsupportedError{
			What: "reach a Kubernetes cluster", Missing: fmt.Sprintf("program %q", name),
			Hint: "install kubectl: https://kubernetes.io/docs/tasks/tools/", Err: err,
		}
	}
	c := &Client{
		program: program, env: o.Env, limits: l, ended: make(chan struct{}),
	}
	c.life, c.end = context.WithCancel(context.WithoutCancel(ctx))
	callers := ctx
	ctx, cancel := context.WithTimeout(ctx, l.open)
	defer cancel()
	defer func() {
		if err != nil {
			_ = c.Close()
		}
	}()
	if err := c.configure(ctx, o.Context); err != nil {
		return nil, err
	}
	if err := c.start(ctx); err != nil {
		return nil, fmt.Errorf("start kubectl proxy: %w", err)
	}
	var version struct{ GitVersion string }
	err = c.once(ctx, http.MethodGet, "/version", nil, &version)
	if status, ok := errors.AsType[*StatusError](err); ok && status.Code == http.StatusUnauthorized {
		return nil, fmt.Errorf("the API server %s refuses the credentials of context %q: %w", c.server, c.context, err)
	}
	if errors.Is(err, context.DeadlineExceeded) && callers.Err() == nil {
		err = &UnreachableError{Server: c.server, Why: fmt.Sprintf("no answer within %v", l.open)}
	}
	if err != nil {
		return nil, fmt.Errorf("context %q: %w", c.context, err)
	}
	if version.GitVersion == "" {
		return nil, fmt.Errorf("context %q: %s does not answer like an API server: /version names no gitVersion", c.context,
			c.server)
	}
	c.version = version.GitVersion
	return c, nil
}

// Context returns the name of the context.
func (c *Client) Context() string { return c.context }

// Version returns the version of the API server, such as "v1.35.4".
func (c *Client) Version() string { return c.version }

// Namespace returns the namespace of the context; "default" if it names none.
func (c *Client) Namespace() string { return c.namespace }

// configure asks kubectl for the context.
func (c *Client) configure(ctx context.Context, name string) error {
	args := []string{"config", "view", "--minify", "--output=json"}
	if name != "" {
		args = append(args, "--context="+name)
	}
	text, err := c.ask(ctx, args...)
	if err != nil {
		return c.explain(ctx, name, err)
	}
	var config struct {
		Current  string `json:"current-context"`
		Clusters []struct {
			Cluster struct{ Server string }
		}
		Contexts []struct {
			Context struct{ Namespace string }
		}
	}
	if err := json.Unmarshal(text, &config); err != nil {
		return fmt.Errorf("read the configuration of kubectl: %w", err)
	}
	if len(config.Clusters) != 1 || len(config.Contexts) != 1 {
		return fmt.Errorf("read the configuration of kubectl: it shows %d clusters and %d contexts instead of one each",
			len(config.Clusters), len(config.Contexts))
	}
	c.context = cmp.Or(name, config.Current)
	c.namespace = cmp.Or(config.Contexts[0].Context.Namespace, "default")
	c.server = config.Clusters[0].Cluster.Server
	return nil
}

// explain says why there is no context: the contexts that there are decide it, and not the words of kubectl.
func (c *Client) explain(ctx context.Context, name string, err error) error {
	text, listErr := c.ask(ctx, "config", "get-contexts", "--output=name")
	names := strings.Fields(string(text))
	switch {
	case listErr != nil:
		return fmt.Errorf("read the configuration of kubectl: %w", err)
	case len(names) == 0:
		return errors.New("kubectl has no configuration of a cluster " +
			"(hint: set KUBECONFIG to a kubeconfig file, or write ~/.kube/config)")
	case name == "":
		return fmt.Errorf("kubectl has no current context: %w (hint: choose one of %s)", err, strings.Join(names, ", "))
	}
	if slices.Contains(names, name) {
		return fmt.Errorf("read the configuration of context %q: %w", name, err)
	}
	return fmt.Errorf("kubectl has no context %q (valid: %s)", name, strings.Join(names, ", "))
}

// ask runs kubectl and returns its output.
func (c *Client) ask(ctx context.Context, args ...string) ([]byte, error) {
	var out bytes.Buffer
	var said process.Tail
	cmd := exec.CommandContext(ctx, c.program, args...)
	cmd.Env, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = c.env, &out, &said, orphan
	err := process.Start(cmd, process.Options{})
	if err == nil {
		err = cmd.Wait()
	}
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, fmt.Errorf("kubectl %s: %w", strings.Join(args[:2], " "), because(said.String(), err))
	}
	return out.Bytes(), nil
}

// because is an error of kubectl in its own words, if it has any.
func because(said string, err error) error {
	words := strings.TrimPrefix(strings.TrimSpace(said), "error: ")
	if line, _, _ := strings.Cut(words, "\n"); strings.HasPrefix(line, "unknown flag: ") {
		return fmt.Errorf("%s (hint: this kubectl is too old; install a newer one)", line)
	}
	if words == "" {
		return err
	}
	return fmt.Errorf("%w: %s", err, words)
}

// start starts the proxy, and holds its socket.
func (c *Client) start(ctx context.Context) error {
	sweep()
	dir, err := os.MkdirTemp("", temporary) // mode 0700
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	// The path of a socket has at most 107 bytes (unix(7)): the proxy finds the directory by a descriptor.
	args := []string{
		"proxy", "--context=" + c.context, "--unix-socket=/proc/self/fd/3/socket",
		// By default it rejects exec, to protect those who listen at a port (k8s.io/kubectl/pkg/proxy). No path is like
		// this.
		"--reject-paths=^$",
	}
	if u, err := url.Parse(c.server); err == nil && strings.Trim(u.Path, "/") != "" {
		args = append(args, "--append-server-path=true")
	}
	c.proxy = exec.Command(c.program, args...)
	c.proxy.Env, c.proxy.ExtraFiles = c.env, []*os.File{d}
	c.proxy.Stdout, c.proxy.Stderr, c.proxy.WaitDelay = &c.said, &c.said, orphan
	if err := process.Start(c.proxy, process.Options{Group: true}); err != nil {
		c.proxy = nil
		return err
	}
	go func() {
		defer close(c.ended)
		_ = c.proxy.Wait() // how it ended is in its state
	}()
	path := filepath.Join(dir, "socket")
	for {
		conn, err := net.Dial("unix", fmt.Sprintf("/proc/self/fd/%d/socket", d.Fd()))
		if err == nil {
			_ = conn.Close()
			break
		}
		select {
		case <-c.ended:
			return because(c.said.String(), errors.New(process.Ended(c.proxy.ProcessState)))
		case <-ctx.Done():
			return fmt.Errorf("%w; it does not listen: %w", ctx.Err(), err)
		case <-time.After(poll):
		}
	}
	var address string
	if c.socket, address, err = owned.HoldSocket(path); err != nil {
		return err
	}
	c.http = &http.Client{
		Transport: &http.Transport{
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				c.dialing.RLock()
				defer c.dialing.RUnlock()
				select {
				case <-c.life.Done():
					return nil, errClosed
				default:
					return new(net.Dialer).DialContext(ctx, "unix", address)
				}
			},
			DisableCompression: true,
			IdleConnTimeout:    time.Minute,
		},
		// A redirect would leave the proxy.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return nil
}

// sweep removes the directories of processes that were killed in the moment between the making and the removal.
func sweep() {
	paths, _ := filepath.Glob(filepath.Join(os.TempDir(), temporary+"*"))
	for _, path := range paths {
		info, err := os.Lstat(path)
		if err != nil || time.Since(info.ModTime()) < stale {
			continue
		}
		if mine, err := owned.Mine(path); err == nil && mine {
			_ = os.RemoveAll(path) // another process may do the same
		}
	}
}

// Close ends the proxy. Programs that [Client.Exec] has started lose their connections. It may be called again.
func (c *Client) Close() error {
	c.closing.Do(func() {
		c.end()
		if c.proxy != nil {
			_ = process.KillGroup(c.proxy) // it fails only for processes of others
			<-c.ended
		}
		if c.http != nil {
			c.http.CloseIdleConnections()
		}
		if c.socket != nil {
			c.dialing.Lock()
			defer c.dialing.Unlock()
			_ = c.socket.Close()
		}
	})
	return nil
}

// gone returns why the proxy is no longer there, or nil. It waits a moment, because a connection may end just before
// the process.
func (c *Client) gone() error {
	select {
	case <-c.ended:
	case <-time.After(orphan):
	}
	select {
	case <-c.life.Done(): // this ended the proxy
		return errClosed
	default:
	}
	select {
	case <-c.ended:
		return errors.New(c.said.After("kubectl proxy ended: " + process.Ended(c.proxy.ProcessState)))
	default:
		return nil
	}
}

// errClosed is the error of a client that was closed.
var errClosed = errors.New("the client of the cluster is closed")
