package testkube

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"github.com/nettoll/nettoll/internal/linux/netns"
	"github.com/nettoll/nettoll/internal/linux/process"
)

// Kubectl runs kubectl as the administrator, and returns what it writes to its standard output. What it writes to its
// standard error is in the error.
func (c *Cluster) Kubectl(ctx context.Context, args ...string) (string, error) {
	return c.kubectl(ctx, nil, args...)
}

func (c *Cluster) kubectl(ctx context.Context, in io.Reader, args ...string) (string, error) {
	var out, said bytes.Buffer
	cmd := c.KubectlCommand(ctx, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, &out, &said
	err := c.StartClient(cmd)
	if err == nil {
		err = cmd.Wait()
	}
	if err != nil {
		return out.String(), fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(said.String()))
	}
	return out.String(), nil
}

// Apply creates or changes objects, which are in YAML or JSON.
func (c *Cluster) Apply(ctx context.Context, objects string) error {
	_, err := c.kubectl(ctx, strings.NewReader(objects), "apply", "-f", "-")
	return err
}

// KubectlCommand is a command of kubectl as the administrator. [Cluster.StartClient] starts it.
func (c *Cluster) KubectlCommand(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, c.binary, append([]string{kubectl}, args...)...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.Kubeconfig(), "KUBECACHEDIR="+c.file("kubectl"))
	return cmd
}

// StartClient starts a program in the network namespace of the control plane, where it reaches the API server and all
// nodes. It has the mounts of this process, and is killed with it.
func (c *Cluster) StartClient(cmd *exec.Cmd) error {
	return process.StartIn(cmd, process.Options{}, func(f func() error) error {
		return netns.Here(int(c.control.net.Fd()), f)
	})
}

// Kubeconfig returns the path of the configuration of a client as the administrator. Its server is the address that the
// API server has on the underlay: see [Cluster.Dial] and [Cluster.StartClient].
func (c *Cluster) Kubeconfig() string { return c.file(controlName, admin+".kubeconfig") }

// Dial connects from the network namespace of the control plane, as net.Dialer.DialContext does. The address is
// numeric.
func (c *Cluster) Dial(ctx context.Context, network, address string) (conn net.Conn, err error) {
	err = netns.Do(int(c.control.net.Fd()), func() error {
		// Its socket is opened by the calling goroutine: an address that is numeric is dialled without another one.
		conn, err = (&net.Dialer{FallbackDelay: -1}).DialContext(ctx, network, address)
		return err
	})
	return conn, err
}

// Relay passes connections to a loopback port of this machine on to the API server, until the context ends. It returns
// the path of the configuration of a client for it.
func (c *Cluster) Relay(ctx context.Context) (string, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("relay to the API server: %w", err)
	}
	text, err := c.ca.kubeconfig(c.file(controlName, admin), "https://"+listener.Addr().String())
	path := c.file("kubeconfig")
	if err == nil {
		err = os.WriteFile(path, text, 0o600)
	}
	if err != nil {
		return "", errors.Join(fmt.Errorf("relay to the API server: %w", err), listener.Close())
	}
	context.AfterFunc(ctx, func() { _ = listener.Close() })
	go func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return // it is closed
			}
			go c.relay(ctx, from)
		}
	}()
	return path, nil
}

// relay passes on one connection.
func (c *Cluster) relay(ctx context.Context, from net.Conn) {
	defer from.Close()
	to, err := c.Dial(ctx, "tcp", strings.TrimPrefix(server(), "https://"))
	if err != nil {
		return // the client sees that its connection is closed
	}
	defer to.Close()
	defer context.AfterFunc(ctx, func() { _ = errors.Join(from.Close(), to.Close()) })()
	var both sync.WaitGroup
	for _, pair := range [][2]net.Conn{{from, to}, {to, from}} {
		both.Go(func() {
			_, _ = io.Copy(pair[0], pair[1])
			if half, ok := pair[0].(*net.TCPConn); ok {
				_ = half.CloseWrite()
			}
		})
	}
	both.Wait()
}

// LinkKubectl makes a directory with the program kubectl, for the PATH of a person's shell.
func (c *Cluster) LinkKubectl(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return os.Symlink(c.binary, filepath.Join(dir, kubectl))
}
