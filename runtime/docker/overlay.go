package docker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/nettoll/nettoll/host"
)

// An Overlay is a network of Docker's driver overlay between the daemons of all hosts of a lab, which are a swarm. The
// daemon of the first host is its manager. The network has the name of the namespace of the segment, and the host knows
// Docker's own namespace by that name from the first container on that joins the network.
type Overlay struct {
	Segment host.Segment `json:"segment"`
}

// Seclusion returns the name by which the host knows Docker's namespace.
func (o Overlay) Seclusion() string { return o.Segment.NS }

// Kind returns "docker-overlay".
func (Overlay) Kind() string { return "docker-overlay" }

// String describes the step in plain words.
func (o Overlay) String() string {
	g := o.Segment
	s := fmt.Sprintf("network %s of Docker by driver overlay, mtu %d, with %s", g.NS, g.MTU, strings.Join(g.Ranges, ", "))
	switch {
	case g.Local == "":
	case o.manages():
		s += fmt.Sprintf(", in a swarm of %d hosts that %s manages", len(g.Hosts), g.Local)
	default:
		s += fmt.Sprintf(", %s in the swarm of %s", g.Local, g.Hosts[0])
	}
	return s
}

// manages reports whether the host is the manager of the swarm.
func (o Overlay) manages() bool {
	return len(o.Segment.Hosts) == 0 || o.Segment.Local == o.Segment.Hosts[0]
}

const (
	// swarmPort is where the manager of a swarm listens, and tokenPort where its host hands out the token meanwhile: the
	// port behind it.
	swarmPort, tokenPort = 2377, 2378
	// alone is the address of a host that has no other.
	alone = "127.0.0.1"
	// unused is where Docker takes the ranges of overlays from that nobody asked for, such as that of its network ingress.
	// No lab has such addresses.
	unused = "192.168.0.0/16"
	// vxlanHeaders is what Docker takes from the MTU that it was given (moby, libnetwork/drivers/overlay/overlay.go,
	// vxlanEncap), in bytes.
	vxlanHeaders = 50
	// gossiped is how long daemons may take to tell each other about their containers.
	gossiped = 15 * time.Second
	// leaving is how long a daemon may take to leave its swarm. It waits five seconds, and more, for others that have left
	// (moby, libnetwork/networkdb/broadcast.go, broadcastTimeout).
	leaving = 3 * time.Second
	// gateway is the bridge that a swarm makes on each host for containers of networks that are not internal.
	gateway = "docker_gwbridge"
)

// Apply makes the swarm and the network, or has the daemon join the swarm.
func (o Overlay) Apply(ctx context.Context, k *host.Kernel) (err error) {
	if err := k.Keep(struct{}{}); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, o.Remove(context.WithoutCancel(ctx), k))
		}
	}()
	if !o.manages() {
		return o.join(ctx, k)
	}
	at := o.Segment.Local
	if at == "" {
		at = alone
	}
	if _, err := asked(ctx, k, "swarm", "init", "--advertise-addr", at, "--listen-addr", portOf(at, swarmPort),
		"--data-path-addr", at, "--default-addr-pool", unused); err != nil {
		return err
	}
	if err := dropIngress(ctx, k); err != nil {
		return err
	}
	create := []string{
		"network", "create", "--driver", "overlay", "--attachable", "--internal",
		"--opt", "com.docker.network.driver.mtu=" + strconv.Itoa(o.Segment.MTU+vxlanHeaders),
	}
	for _, r := range o.Segment.Ranges {
		create = append(create, "--subnet", r)
	}
	if _, err := asked(ctx, k, append(create, o.Segment.NS)...); err != nil {
		return err
	}
	others := len(o.Segment.Hosts) - 1
	if others < 1 {
		return nil
	}
	token, err := asked(ctx, k, "swarm", "join-token", "--quiet", "worker")
	if err != nil {
		return err
	}
	h, err := hand(k, portOf(o.Segment.Local, tokenPort), token, others)
	if err != nil {
		return err
	}
	return k.Hold(h)
}

// dropIngress removes the network by which a swarm publishes ports of services, of which there are none. A daemon that
// joins would make links for it, at some time while the lab is measured.
func dropIngress(ctx context.Context, k *host.Kernel) error {
	const ingress = "ingress"
	ctx, cancel := context.WithTimeout(ctx, gossiped)
	defer cancel()
	for seen := false; ; { // the swarm makes it a moment after its own beginning
		there, err := asked(ctx, k, "network", "ls", "--quiet", "--filter", "name=^"+ingress+"$")
		if err != nil {
			return err
		}
		if there == "" && seen {
			return nil
		}
		seen = seen || there != ""
		cmd, err := command(ctx, k, "network", "rm", ingress)
		if err != nil {
			return err
		}
		cmd.Stdin = strings.NewReader("y\n") // it asks whether that is meant
		_ = cmd.Run()                        // whether it is gone is asked again
		select {
		case <-ctx.Done():
			return fmt.Errorf("remove network %s of Docker: %w", ingress, ctx.Err())
		case <-time.After(pause):
		}
	}
}

// join has the daemon join the swarm of the first host.
func (o Overlay) join(ctx context.Context, k *host.Kernel) error {
	token, err := fetch(ctx, k, portOf(o.Segment.Hosts[0], tokenPort))
	if err != nil {
		return err
	}
	_, err = asked(ctx, k, "swarm", "join", "--token", token, "--advertise-addr", o.Segment.Local, "--listen-addr",
		portOf(o.Segment.Local, swarmPort), "--data-path-addr", o.Segment.Local, portOf(o.Segment.Hosts[0], swarmPort))
	return err
}

// portOf is an address with a port.
func portOf(address string, port int) string { return net.JoinHostPort(address, strconv.Itoa(port)) }

// asked gives a command to the daemon of the host, and returns what it has written. The error does not have the
// arguments, among which a token may be.
func asked(ctx context.Context, k *host.Kernel, args ...string) (string, error) {
	cmd, err := command(ctx, k, args...)
	if err != nil {
		return "", err
	}
	out, err := cmd.Output()
	if exit, is := errors.AsType[*exec.ExitError](err); is {
		err = fmt.Errorf("docker %s: %w: %s", strings.Join(args[:2], " "), err, bytes.TrimSpace(exit.Stderr))
	}
	return string(bytes.TrimSpace(out)), err
}

// show gives the host, by the name of a network, the namespace in which Docker has its bridge and its device, if the
// host does not know it yet.
func show(ctx context.Context, k *host.Kernel, network string) error {
	if _, err := os.Stat(k.Path(network)); err == nil {
		return nil
	}
	id, err := asked(ctx, k, "network", "inspect", "--format", "{{.Id}}", network)
	if err != nil {
		return err
	}
	at, err := k.RunDir(dir)
	if err != nil {
		return err
	}
	// The name is a number, and as much of the id as fits into twelve bytes (moby, libnetwork/drivers/overlay,
	// network.initSandbox; libnetwork/osl, GenerateKey).
	const short = 10
	found, err := filepath.Glob(filepath.Join(at, "exec", "netns", "[0-9]*-"+id[:min(short, len(id))]))
	if err != nil {
		return err
	}
	if len(found) != 1 {
		return fmt.Errorf("the namespace of network %s of Docker: found %d, want one", network, len(found))
	}
	ns, err := os.Open(found[0])
	if err != nil {
		return err
	}
	defer ns.Close()
	return host.Namespace{Name: network}.Show(k, ns)
}

// Remove has the daemon leave the swarm, which ends the network. If the hosts of a lab leave at the same time, a daemon
// may wait in vain for others to hear it: then Remove ends the daemon.
func (o Overlay) Remove(ctx context.Context, k *host.Kernel) error {
	if kept, err := k.Kept(&struct{}{}); err != nil || !kept {
		return err
	}
	if err := (host.Namespace{Name: o.Segment.NS}).Remove(ctx, k); err != nil {
		return err
	}
	at, err := k.RunDir(dir)
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(at, socket)); err != nil {
		return nil // the daemon is gone, and this host with it
	}
	soon, cancel := context.WithTimeout(ctx, leaving)
	defer cancel()
	_, err = asked(soon, k, "swarm", "leave", "--force")
	switch p := k.Process(dockerd); {
	case err == nil || strings.Contains(err.Error(), "not part of a swarm"):
	case soon.Err() != nil && p.PID != 0:
		return k.Stop(p, 0)
	default:
		return err
	}
	if _, err := asked(ctx, k, "network", "rm", gateway); err != nil &&
		!strings.Contains(strings.ToLower(err.Error()), "no such network") && !strings.Contains(err.Error(), "not found") {
		return err
	}
	return nil
}

// Verify compares Docker's device with the step. It waits until the daemon has been told about the containers of other
// hosts.
func (o Overlay) Verify(k *host.Kernel) error {
	for deadline := time.Now().Add(gossiped); ; time.Sleep(pause) {
		_, err := o.Segment.Holds(k, o)
		if _, drift := errors.AsType[*host.DriftError](err); !drift || time.Now().After(deadline) {
			return err
		}
	}
}

// pause is the time between two looks.
const pause = 20 * time.Millisecond

// overlaid returns the steps of a network without those that make a segment over all hosts, and the step by which
// Docker makes it; none if the network has no segment.
func overlaid(steps []host.Step) (rest, made []host.Step) {
	space := ""
	for _, s := range steps {
		if g, is := s.(host.Segment); is {
			space, made = g.NS, append(made, Overlay{Segment: g})
		}
	}
	if space == "" {
		return steps, nil
	}
	for _, s := range steps {
		switch s := s.(type) {
		case host.Segment:
			continue
		case host.Namespace:
			if s.Name == space {
				continue
			}
		case host.Sysctl:
			if s.NS == space {
				continue
			}
		case host.Bridge:
			if s.NS == space {
				continue
			}
		}
		rest = append(rest, s)
	}
	return rest, made
}
