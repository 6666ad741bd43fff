package tinc

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux"
	driver "github.com/nettoll/nettoll/internal/linux/link"
)

// A Daemon is the program of a host, with its TUN device, which is down. See [Daemon.connects].
type Daemon struct {
	// Name is that of the device.
	Name string `json:"name"`
	// Host is the number of the host, from 1.
	Host int `json:"host"`
	// Cipher is what packets to this host are encrypted by: "aes-256-cbc".
	Cipher string `json:"cipher"`
	// Family is "ipv4" or "ipv6": that of the encrypted packets.
	Family string `json:"family"`
	// Every is after how many seconds keys of packets are renewed; 0: after an hour, the default of tinc.
	Every int `json:"rekey,omitempty"`
	// Nodes are all hosts, this one among them.
	Nodes []Node `json:"nodes"`
}

// A Node is the program of a host, as others know it.
type Node struct {
	// Host is the number of the host: its key is derived from that.
	Host int `json:"host"`
	// Address is where it listens: "198.18.0.2".
	Address string `json:"address"`
	// Subnets are the ranges of addresses that are its.
	Subnets []string `json:"subnets"`
}

// Kind returns "tinc".
func (Daemon) Kind() string { return name }

// String says the step as a person would.
func (d Daemon) String() string {
	var nodes []string
	for _, n := range d.Nodes {
		nodes = append(nodes, fmt.Sprintf("%s at %s with %s", called(n.Host), n.Address, strings.Join(n.Subnets, ", ")))
	}
	every := ""
	if d.Every > 0 {
		every = fmt.Sprintf(", new keys after %d s", d.Every)
	}
	return fmt.Sprintf("tinc device %s of %s, port %d, cipher %s%s, nodes %s", d.Name, called(d.Host), port, d.Cipher,
		every, strings.Join(nodes, "; "))
}

// called is the name of a node.
func called(of int) string { return fmt.Sprintf("host%d", of) }

// purpose is what the key of a host is derived for.
func purpose(of int) string { return fmt.Sprintf("%s of host %d", name, of) }

// connects says whether it connects to that host, or that host to it. Each connects to about half of the others: the
// program accepts ten connections in a second, and keeps others waiting until they give up (src/net_socket.c,
// handle_new_meta_connection).
func (d Daemon) connects(to int) bool { return (d.Host > to) == ((d.Host+to)%2 == 1) }

// Files of the directory of the program, which are its names for them.
const (
	config  = "tinc.conf"
	nodes   = "hosts"
	secrets = "rsa_key.priv"
	pidFile = "pid"
)

// settings is the file of settings: tinc.conf(5).
func (d Daemon) settings() []byte {
	var own Node
	var to []string
	for _, n := range d.Nodes {
		switch {
		case n.Host == d.Host:
			own = n
		case d.connects(n.Host):
			to = append(to, called(n.Host))
		}
	}
	lines := [][2]string{
		{"Name", called(d.Host)},
		{"Mode", "router"},
		{"Interface", d.Name},
		{"AddressFamily", d.Family},
		{"BindToAddress", own.Address},
		{"Cipher", d.Cipher},
		{"Digest", "sha256"},
		{"MACLength", fmt.Sprint(mac)},
		// A packet goes straight to its host or nowhere: no host learns of others, of ranges or of keys through a third
		// one, or passes on what is not for it. Ranges are those of the files alone (TunnelServer implies StrictSubnets).
		{"TunnelServer", "yes"},
		{"DirectOnly", "yes"},
		{"Forwarding", "off"},
		{"Broadcast", "no"},
		{"LocalDiscovery", "no"},
		// Until it has found out the MTU of a path, which takes seconds, the program sends packets over TCP. The MTU is known
		// here, so that all packets go over UDP, and none needs another maximum segment size.
		{"PMTUDiscovery", "no"},
		{"ClampMSS", "no"},
		// Bytes of 8 packets each. After as many were lost in a row, the program drops the next ones, too, up to a quarter of
		// that number of bytes (src/net_packet.c, receive_udppacket). By its default, 16, TCP loses four retransmissions in a
		// row then, which takes seconds. This is the window of WireGuard (drivers/net/wireguard/messages.h).
		{"ReplayWindow", "1024"},
		// It tries again to connect after 5 s, then 10 s and so on, but not after more than that, in seconds.
		{"MaxTimeout", "1"},
	}
	if d.Every > 0 {
		lines = append(lines, [2]string{"KeyExpire", fmt.Sprint(d.Every)})
	}
	for _, name := range to {
		lines = append(lines, [2]string{"ConnectTo", name})
	}
	var b bytes.Buffer
	for _, l := range lines {
		fmt.Fprintf(&b, "%s = %s\n", l[0], l[1])
	}
	return b.Bytes()
}

// file is what is said of a node: tinc.conf(5), host configuration files.
func (n Node) file(public []byte) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "Address = %s\nPort = %d\n", n.Address, port)
	for _, s := range n.Subnets {
		fmt.Fprintf(&b, "Subnet = %s\n", s)
	}
	b.Write(public)
	return b.Bytes()
}

// files returns the files of the directory that stay, by their paths in it, and the private key.
func (d Daemon) files(k *host.Kernel) (files map[string][]byte, secret []byte, err error) {
	files = map[string][]byte{config: d.settings()}
	for _, n := range d.Nodes {
		own, err := key(k, n.Host)
		if err != nil {
			return nil, nil, err
		}
		files[filepath.Join(nodes, called(n.Host))] = n.file(public(own))
		if n.Host == d.Host {
			secret = private(own)
		}
	}
	return files, secret, nil
}

// was is what a [Daemon] keeps.
type was struct {
	Process host.Process `json:"process"`
	// Sums are the SHA-256 sums of the files, by their paths in the directory.
	Sums map[string]string `json:"sums"`
}

func sum(data []byte) string {
	s := sha256.Sum256(data)
	return hex.EncodeToString(s[:])
}

// Apply writes the files and starts the program. It returns when that has its device and listens. The private key is in
// a file only until then.
func (d Daemon) Apply(_ context.Context, k *host.Kernel) error {
	h, err := k.Links("")
	if err != nil {
		return err
	}
	if _, err := h.ByName(d.Name); err == nil {
		return fmt.Errorf("link %q already exists", d.Name)
	} else if !errors.Is(err, driver.ErrNotFound) {
		return err
	}
	files, secret, err := d.files(k)
	if err != nil {
		return err
	}
	dir, err := k.RunDir(name)
	if err != nil {
		return err
	}
	now := was{Sums: map[string]string{}}
	for path, data := range files {
		now.Sums[path] = sum(data)
	}
	err = k.Keep(now)
	if err == nil {
		err = write(dir, files, secret)
	}
	if err == nil {
		now.Process, err = d.start(k, dir)
	}
	if err == nil {
		err = errors.Join(os.Remove(filepath.Join(dir, secrets)), k.Keep(now))
	}
	if err != nil {
		return errors.Join(err, d.remove(k, now))
	}
	return nil
}

func write(dir string, files map[string][]byte, secret []byte) error {
	if err := os.Mkdir(filepath.Join(dir, nodes), 0o700); err != nil {
		return err
	}
	files = maps.Clone(files)
	files[secrets] = secret
	for path, data := range files {
		if err := os.WriteFile(filepath.Join(dir, path), data, 0o600); err != nil {
			return err
		}
	}
	return nil
}

const (
	// patience is how long the program may take to start.
	patience = 5 * time.Second
	// settle is how long hosts may take to connect and to answer, and crowded how long in a lab of more hosts than crowd,
	// in which connections may be kept waiting: they give up after 5 s, PingTimeout of tinc.conf(5).
	settle, crowded, crowd = 3 * time.Second, 10 * time.Second, 20
	// pause is between two looks at its log.
	pause = 5 * time.Millisecond
	// grace is how long it is given to end.
	grace = 2 * time.Second
)

// level is that of messages: requests without their contents. From 4 on there are keys in the log (src/protocol.c).
const level = "-d3"

// What the program says: src/tincd.c, src/net_setup.c and src/protocol.c.
const (
	saysVersion = "tincd "
	saysReady   = "Ready\n"
	saysPong    = "Got PONG from %s ("
)

// start starts the program and waits until it is ready.
func (d Daemon) start(k *host.Kernel, dir string) (p host.Process, err error) {
	from, err := logged(k)
	if err != nil {
		return p, err
	}
	r, err := k.Start(host.Program{
		Name: name, Package: debian,
		Args: []string{program, "-c", dir, "-D", level, "--pidfile=" + filepath.Join(dir, pidFile)},
	})
	if err != nil {
		return p, err
	}
	err = wait(k, r, patience, from, func(said string) bool {
		if !strings.Contains(said, saysReady) {
			return false
		}
		_, version, _ := strings.Cut(said, saysVersion)
		version, _, _ = strings.Cut(version, " ")
		k.Implementation("encryption", name+" "+version)
		return true
	})
	if died := r.Died(); died != nil || err != nil {
		return host.Process{}, errors.Join(died, err, r.Stop(grace))
	}
	return r.Process(), nil
}

// logFile is where what the program says is kept.
func logFile(k *host.Kernel) (string, error) {
	dir, err := k.RunDir("log")
	return filepath.Join(dir, name+".log"), err
}

// logged is how long the log is, in bytes.
func logged(k *host.Kernel) (int64, error) {
	path, err := logFile(k)
	if err != nil {
		return 0, err
	}
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// errLate says that the program has not said what was waited for.
var errLate = errors.New("it does not say that it is ready")

// wait reads the log from there on, until it holds what is waited for or the program has ended.
func wait(
	k *host.Kernel, r *host.Running, most time.Duration, from int64, enough func(said string) bool,
) error {
	path, err := logFile(k)
	if err != nil {
		return err
	}
	for deadline := time.Now().Add(most); ; time.Sleep(pause) {
		said, err := since(path, from)
		if err != nil || enough(said) {
			return err
		}
		select {
		case <-r.Done():
			return nil // its death is told by others
		default:
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s: %w", program, errLate)
		}
	}
}

func since(path string, from int64) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if _, err := f.Seek(from, io.SeekStart); err != nil {
		return "", err
	}
	said, err := io.ReadAll(f)
	return string(said), err
}

// Remove ends the program, whose device goes with it, and removes its files.
func (d Daemon) Remove(_ context.Context, k *host.Kernel) error {
	var then was
	if ok, err := k.Kept(&then); !ok {
		return err
	}
	return d.remove(k, then)
}

func (Daemon) remove(k *host.Kernel, then was) error {
	err := k.Stop(then.Process, grace)
	dir, derr := k.RunDir(name)
	if derr == nil {
		derr = os.RemoveAll(dir)
	}
	return errors.Join(err, derr)
}

// tuntap is the type of links that programs make by /dev/net/tun.
const tuntap = "tuntap"

// Verify wants the program with its device and its files, and an answer of every other host to it. It waits for those,
// so that a packet sent after it finds its keys and is not lost.
func (d Daemon) Verify(k *host.Kernel) error {
	drift := func(list ...linux.Difference) error { return &host.DriftError{Step: d.String(), Drifts: list} }
	r := k.Running(name)
	if r == nil {
		return drift(linux.Difference{What: "process of " + d.Name, Want: "running", Got: linux.Absent})
	}
	if died := r.Died(); died != nil {
		return drift(linux.Difference{What: "process of " + d.Name, Want: "running", Got: died.Error()})
	}
	h, err := k.Links("")
	if err != nil {
		return err
	}
	l, err := h.ByName(d.Name)
	if errors.Is(err, driver.ErrNotFound) {
		return drift(linux.Difference{What: "link " + d.Name, Want: linux.Present, Got: linux.Absent})
	}
	if err != nil {
		return err
	}
	if l.Type != tuntap {
		return drift(linux.Difference{What: "type of " + d.Name, Want: tuntap, Got: l.Type})
	}
	differences, err := d.changed(k)
	if err == nil && len(differences) == 0 {
		differences, err = d.unheard(k, r)
	}
	if err != nil {
		return err
	}
	if len(differences) > 0 {
		return drift(differences...)
	}
	return nil
}

// changed returns which files are not as they were written.
func (Daemon) changed(k *host.Kernel) (list []linux.Difference, err error) {
	var then was
	if _, err := k.Kept(&then); err != nil {
		return nil, err
	}
	dir, err := k.RunDir(name)
	if err != nil {
		return nil, err
	}
	for _, path := range slices.Sorted(maps.Keys(then.Sums)) {
		data, err := os.ReadFile(filepath.Join(dir, path))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			list = append(list, linux.Difference{What: "file " + path, Want: linux.Present, Got: linux.Absent})
		case err != nil:
			return nil, err
		case sum(data) != then.Sums[path]:
			list = append(list, linux.Difference{What: "file " + path, Want: "as it was written", Got: "changed"})
		}
	}
	return list, nil
}

// again is how long an answer may take before the program is asked once more.
const again = 250 * time.Millisecond

// unheard asks all other hosts, and returns those that do not answer. On SIGALRM the program sends a PING over each
// connection, and makes those that are missing at once (src/net.c, main_loop). The other end has sent its key for
// packets before its PONG, over the same connection (src/graph.c, sssp_bfs).
func (d Daemon) unheard(k *host.Kernel, r *host.Running) ([]linux.Difference, error) {
	from, err := logged(k)
	if err != nil {
		return nil, err
	}
	var missing []string
	var asked time.Time
	most := settle
	if len(d.Nodes) > crowd {
		most = crowded
	}
	err = wait(k, r, most, from, func(said string) bool {
		missing = nil
		for _, n := range d.Nodes {
			if n.Host != d.Host && !strings.Contains(said, fmt.Sprintf(saysPong, called(n.Host))) {
				missing = append(missing, called(n.Host))
			}
		}
		if len(missing) > 0 && time.Since(asked) > again {
			asked = time.Now()
			_ = r.Signal(syscall.SIGALRM) // it may have ended, which is noticed
		}
		return len(missing) == 0
	})
	if died := r.Died(); died != nil {
		return []linux.Difference{{What: "process of " + d.Name, Want: "running", Got: died.Error()}}, nil
	}
	if err != nil && !errors.Is(err, errLate) {
		return nil, err
	}
	var list []linux.Difference
	for _, name := range missing {
		list = append(list, linux.Difference{What: "connection to " + name, Want: "answers", Got: "no answer"})
	}
	return list, nil
}
