package ipsec

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/strongswan/govici/vici"

	"github.com/nettoll/nettoll/internal/linux"
	"github.com/nettoll/nettoll/internal/linux/link"
)

// Program is the name of the charon variant whose settings come only through vici. It writes no PID file.
const Program = "charon-systemd"

// Packages are the names of the Debian packages with charon and the plugins that it loads.
const Packages = "charon-systemd libcharon-extra-plugins libstrongswan-standard-plugins"

// MostCharon is the length in bytes of the largest packet that charon encrypts: it reads no more from its link at once
// (strongSwan 5.9.8, TUN_DEFAULT_MTU in src/libcharon/plugins/kernel_libipsec/kernel_libipsec_plugin.c).
const MostCharon = 1400

// Link is the name of the link that charon makes ("ipsec%d" in the same file).
const Link = "ipsec0"

// pluginDirs lists the directories of strongSwan's plugins in Debian, Fedora, Arch and Alpine.
func pluginDirs() []string {
	return []string{
		"/usr/lib/ipsec/plugins", "/usr/lib64/strongswan/plugins", "/usr/lib/strongswan/plugins",
		"/usr/libexec/strongswan/plugins",
	}
}

// Installed returns nil if charon can encrypt here, and otherwise what is missing.
func Installed() error {
	const what = "encrypt by strongSwan"
	hint := "install the packages " + Packages
	if _, err := exec.LookPath(Program); err != nil {
		return &linux.UnsupportedError{What: what, Missing: fmt.Sprintf("program %q", Program), Hint: hint, Err: err}
	}
	for _, dir := range pluginDirs() {
		if _, err := os.Stat(dir); err != nil {
			continue
		}
		for _, name := range []string{"kernel-libipsec", "openssl", "vici"} {
			_, err := os.Stat(filepath.Join(dir, "libstrongswan-"+name+".so"))
			if errors.Is(err, fs.ErrNotExist) {
				return &linux.UnsupportedError{
					What: what, Missing: fmt.Sprintf("plugin %q of strongSwan", name), Hint: hint, Err: err,
				}
			}
		}
	}
	return link.CheckTUN(what)
}

// An Instance is one charon.
type Instance struct {
	// Dir is the directory of its files. Nothing else uses it.
	Dir string
}

func (i Instance) settings() string { return filepath.Join(i.Dir, "strongswan.conf") }
func (i Instance) socket() string   { return filepath.Join(i.Dir, "vici") }

// pending returns the name of a file that exists from the request for the associations until all have been up once.
func (i Instance) pending() string { return filepath.Join(i.Dir, "pending") }

// Env returns the variables that it needs in its environment.
func (i Instance) Env() []string { return []string{"STRONGSWAN_CONF=" + i.settings()} }

// The routing table into which charon puts routes to peers, and the priority of the rule that uses it: after all
// others. Nothing needs them, see [Instance.Load]. The table is the one in strongSwan's documentation, but set
// explicitly so that [DropRules] finds it.
const (
	table    = 220
	priority = 40000
)

// settings are charon's settings. It repeats requests every 0.2 s for half a minute (its default waits for 4 s, and
// longer each time), because hosts are built at the same time and one may be ready before the other. It sends no
// keep-alives, because nothing translates addresses, and does not react to changes of links, which steps make.
const settings = `charon-systemd {
  load_modular = no
  load = random nonce openssl hmac kdf kernel-libipsec kernel-netlink socket-default vici
  install_virtual_ip = no
  routing_table = %d
  routing_table_prio = %d
  retransmit_timeout = 0.2
  retransmit_base = 1.0
  retransmit_tries = 150
  keep_alive = 0
  plugins {
    kernel-libipsec { allow_peer_ts = yes }
    kernel-netlink { roam_events = no }
    vici { socket = unix://%s }
  }
  filelog { stderr { default = 0
    ike = 1
    knl = 1
    net = 1
    flush_line = yes
  } }
  journal { default = -1 }
}
`

// Create writes its settings, which contain no secret.
func (i Instance) Create() error {
	text := fmt.Sprintf(settings, table, priority, i.socket())
	if err := os.WriteFile(i.settings(), []byte(text), 0o600); err != nil {
		return fmt.Errorf("write the settings of charon: %w", err)
	}
	return nil
}

// patience is how long charon may take to start or to answer.
const patience = 5 * time.Second

// pause is the time between two checks of something that takes milliseconds.
const pause = 2 * time.Millisecond

// Ready waits until charon accepts commands. gone is closed when the program has ended.
func (i Instance) Ready(gone <-chan struct{}) error {
	for deadline := time.Now().Add(patience); ; {
		err := i.talk(func(*vici.Session) error { return nil })
		if err == nil {
			return nil
		}
		select {
		case <-gone:
			return errors.New("wait for charon: the program has ended")
		case <-time.After(pause):
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("wait for charon: %w", err)
		}
	}
}

// talk calls f with a session.
func (i Instance) talk(f func(*vici.Session) error) error {
	s, err := vici.NewSession(vici.WithAddr("unix", i.socket()), vici.WithDialContext(dial))
	if err != nil {
		return err
	}
	defer s.Close()
	return f(s)
}

// dial connects to charon, which must answer every request within its patience.
func dial(ctx context.Context, network, addr string) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// call makes a request. An error contains nothing of the request, which may hold keys.
func call(s *vici.Session, command string, request map[string]any) (*vici.Message, error) {
	m, err := vici.MarshalMessage(request)
	if err != nil {
		return nil, fmt.Errorf("ask charon to %s: the request cannot be written", command)
	}
	answer, err := s.CommandRequest(command, m)
	if err == nil {
		err = answer.Err()
	}
	if err != nil {
		return nil, fmt.Errorf("ask charon to %s: %w", command, err)
	}
	return answer, nil
}

// Names in charon's configuration.
const (
	guard = "guard" // policies
	child = "esp"   // security associations
)

// name returns the IKE name of a host.
func name(of int) string { return fmt.Sprintf("host%d", of) }

// ike is the proposal that protects charon's own messages. It does not affect how packets are encrypted.
const ike = "aes256gcm16-prfsha256-ecp256"

// Load configures its peers. From then on, charon drops packets to and from a peer that no security association
// encrypts.
//
// The policies of a peer select these packets. They belong to a child of their own ("guard"), which is only installed
// and never negotiated. It shares the number of the peer (reqid) with the child whose associations encrypt. So the
// policies exist before and after the associations do. They contain all addresses. For negotiated addresses, charon
// would add routes, and would fail unless the host already has one of the addresses (install_route in
// src/libcharon/plugins/kernel_libipsec/kernel_libipsec_ipsec.c); containers' networks add them only later.
func (i Instance) Load(c Config) error {
	return i.talk(func(s *vici.Session) error {
		for _, p := range c.Peers {
			if _, err := call(s, "load-shared", map[string]any{
				"id": name(p.Host), "type": "IKE", "data": string(p.Shared.bytes), "owners": []string{name(c.Host), name(p.Host)},
			}); err != nil {
				return err
			}
			if _, err := call(s, "load-conn", map[string]any{name(p.Host): connection(c, p)}); err != nil {
				return err
			}
			if _, err := call(s, "install", map[string]any{"ike": name(p.Host), "child": guard}); err != nil {
				return err
			}
		}
		return nil
	})
}

// connection returns charon's configuration of a peer.
func connection(c Config, p Peer) map[string]any {
	common := map[string]any{
		"mode": "tunnel", "reqid": p.Host, "esp_proposals": []string{c.Cipher.proposal}, "remote_ts": texts(p.Ranges),
		"rekey_time": "0s", "life_time": "0s",
	}
	of := func(more map[string]any) map[string]any {
		all := maps.Clone(common)
		maps.Copy(all, more)
		return all
	}
	return map[string]any{
		"version": "2", "local_addrs": []string{c.At.String()}, "remote_addrs": []string{p.At.String()},
		"local_port": strconv.Itoa(Port), "remote_port": strconv.Itoa(Port), "encap": "yes", "mobike": "no",
		"rekey_time": "0s", "reauth_time": "0s", "keyingtries": "0", "proposals": []string{ike},
		"local":  map[string]any{"auth": "psk", "id": name(c.Host)},
		"remote": map[string]any{"auth": "psk", "id": name(p.Host)},
		"children": map[string]any{
			guard: of(map[string]any{"local_ts": anywhere()}),
			child: of(map[string]any{"local_ts": texts(c.Own), "policies": "no"}),
		},
	}
}

func anywhere() []string { return []string{"0.0.0.0/0", "::/0"} }

// Initiate starts the negotiation of security associations with the peers that have a lower number. Those with a higher
// number start it themselves. Initiate does not wait for them.
func (i Instance) Initiate(c Config) error {
	if err := os.WriteFile(i.pending(), nil, 0o600); err != nil {
		return err
	}
	return i.talk(func(s *vici.Session) error {
		for _, p := range c.Peers {
			if err := initiate(s, c, p); err != nil {
				return err
			}
		}
		return nil
	})
}

func initiate(s *vici.Session, c Config, p Peer) error {
	if p.Host > c.Host {
		return nil
	}
	_, err := call(s, "initiate", map[string]any{"ike": name(p.Host), "child": child, "timeout": "-1"})
	return err
}

// standing is how long it may take until all security associations are up, from the request on.
const standing = 15 * time.Second

// Stands lists the differences between charon and its configuration. Until all security associations have been up once,
// it waits for them. It also repeats requests that the peer has refused: a charon without configuration refuses
// everything, and hosts are built at the same time. It shows no key.
func (i Instance) Stands(c Config, gone <-chan struct{}) ([]linux.Difference, error) {
	for {
		var list []linux.Difference
		var without []missing
		err := i.talk(func(s *vici.Session) (err error) {
			list, without, err = compare(s, c)
			return err
		})
		if err != nil {
			return nil, err
		}
		if len(without) == 0 {
			if err := os.Remove(i.pending()); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, err
			}
			return list, nil
		}
		info, err := os.Stat(i.pending())
		if err != nil || time.Since(info.ModTime()) > standing {
			return list, nil
		}
		select {
		case <-gone:
			return list, nil
		case <-time.After(lull):
		}
		if err := i.again(c, without); err != nil {
			return nil, err
		}
	}
}

// lull is the time between two checks of the security associations.
const lull = 20 * time.Millisecond

// missing is a peer without security associations. agreeing says that they are being negotiated.
type missing struct {
	peer     Peer
	agreeing bool
}

// again repeats the request for security associations that are not being negotiated.
func (i Instance) again(c Config, list []missing) error {
	return i.talk(func(s *vici.Session) error {
		for _, m := range list {
			if m.agreeing {
				continue
			}
			if err := initiate(s, c, m.peer); err != nil {
				return err
			}
		}
		return nil
	})
}

// A session is an association of IKE, with its children, as charon reports it.
type session struct {
	State      string              `vici:"state"`
	LocalHost  string              `vici:"local-host"`
	RemoteHost string              `vici:"remote-host"`
	LocalID    string              `vici:"local-id"`
	RemoteID   string              `vici:"remote-id"`
	Children   map[string]security `vici:"child-sas"`
}

// A security is a pair of security associations, as charon reports it.
type security struct {
	Name       string   `vici:"name"`
	State      string   `vici:"state"`
	Mode       string   `vici:"mode"`
	Protocol   string   `vici:"protocol"`
	Encap      string   `vici:"encap"`
	Reqid      string   `vici:"reqid"`
	Out        string   `vici:"spi-out"`
	Encryption string   `vici:"encr-alg"`
	Bits       string   `vici:"encr-keysize"`
	Integrity  string   `vici:"integ-alg"`
	Local      []string `vici:"local-ts"`
	Remote     []string `vici:"remote-ts"`
}

// policy is an installed policy of a child, as charon reports it.
type policy struct {
	Child  string   `vici:"child"`
	Ike    string   `vici:"ike"`
	Mode   string   `vici:"mode"`
	Local  []string `vici:"local-ts"`
	Remote []string `vici:"remote-ts"`
}

// compare also lists the peers without security associations.
func compare(s *vici.Session, c Config) (list []linux.Difference, without []missing, err error) {
	differ := func(what, want, got string) {
		if want != got {
			list = append(list, linux.Difference{What: what, Want: want, Got: got})
		}
	}
	answer, err := call(s, "get-shared", nil)
	if err != nil {
		return nil, nil, err
	}
	keys, _ := answer.Get("keys").([]string)
	policies, err := stream[policy](s, "list-policies", "list-policy", map[string]any{
		"trap": "yes", "drop": "yes", "pass": "yes",
	})
	if err != nil {
		return nil, nil, err
	}
	sessions, err := stream[session](s, "list-sas", "list-sa", nil)
	if err != nil {
		return nil, nil, err
	}
	var want []string
	for _, p := range c.Peers {
		host := name(p.Host)
		want = append(want, host)
		installed := policies[host+"/"+guard]
		delete(policies, host+"/"+guard)
		switch len(installed) {
		case 0:
			differ("policies of "+host, linux.Present, linux.Absent)
		default:
			differ("own addresses in the policies of "+host, listed(anywhere()), listed(installed[0].Local))
			differ("addresses of "+host+" in its policies", listed(texts(p.Ranges)), listed(installed[0].Remote))
		}
		found := sessions[host]
		delete(sessions, host)
		of := "security association with " + host
		if len(found) == 0 || len(found) == 1 && found[0].State != "ESTABLISHED" || len(found[0].Children) == 0 {
			got := linux.Absent
			if len(found) > 0 {
				got = "one that is being agreed on (" + strings.ToLower(found[0].State) + ")"
			}
			differ(of, linux.Present, got)
			without = append(without, missing{p, len(found) > 0})
			continue
		}
		differ("number of associations of IKE with "+host, "1", strconv.Itoa(len(found)))
		one := found[0]
		differ("ends of the "+of, c.At.String()+" "+name(c.Host)+", "+p.At.String()+" "+host,
			one.LocalHost+" "+one.LocalID+", "+one.RemoteHost+" "+one.RemoteID)
		differ("number of pairs of associations with "+host, "1", strconv.Itoa(len(one.Children)))
		for _, e := range one.Children {
			differ("state of the "+of, "INSTALLED ESP TUNNEL encap yes", fmt.Sprintf("%s %s %s encap %s", e.State, e.Protocol,
				e.Mode, e.Encap))
			differ("cipher of the "+of, worded(c.Cipher.encryption, c.Cipher.bits, c.Cipher.integrity),
				worded(e.Encryption, e.Bits, e.Integrity))
			differ("policies that the "+of+" is for", strconv.Itoa(p.Host), e.Reqid)
			differ("own addresses of the "+of, listed(texts(c.Own)), listed(e.Local))
			differ("addresses of the peer of the "+of, listed(texts(p.Ranges)), listed(e.Remote))
		}
	}
	for other, found := range sessions {
		// An association may have been requested without an identity so far: "(unnamed)". A host may also have made one
		// by a repeated request.
		if slices.ContainsFunc(found, func(s session) bool { return s.State != "CONNECTING" }) {
			differ("security association "+other, linux.Absent, linux.Present)
		}
	}
	for other := range policies {
		differ("policies "+other, linux.Absent, linux.Present)
	}
	differ("names of shared keys", listed(want), listed(keys))
	slices.SortFunc(list, func(a, b linux.Difference) int { return strings.Compare(a.What, b.What) })
	return list, without, nil
}

// worded joins the words that are not empty.
func worded(words ...string) string {
	return strings.Join(strings.Fields(strings.Join(words, " ")), " ")
}

// stream returns the entries of a listing of charon, by name.
func stream[T any](s *vici.Session, command, event string, request map[string]any) (map[string][]T, error) {
	m, err := vici.MarshalMessage(request)
	if err != nil {
		return nil, err
	}
	answers, err := s.StreamedCommandRequest(command, event, m)
	if err != nil {
		return nil, fmt.Errorf("ask charon to %s: %w", command, err)
	}
	all := map[string][]T{}
	for _, answer := range answers {
		if err := answer.Err(); err != nil {
			return nil, fmt.Errorf("ask charon to %s: %w", command, err)
		}
		for _, key := range answer.Keys() {
			section, ok := answer.Get(key).(*vici.Message)
			if !ok {
				continue
			}
			var one T
			if err := vici.UnmarshalMessage(section, &one); err != nil {
				return nil, fmt.Errorf("ask charon to %s: %w", command, err)
			}
			all[key] = append(all[key], one)
		}
	}
	return all, nil
}

// Version returns the version of the running program: "5.9.8".
func (i Instance) Version() (version string, err error) {
	err = i.talk(func(s *vici.Session) error {
		answer, err := call(s, "version", nil)
		if err == nil {
			version, _ = answer.Get("version").(string)
		}
		return err
	})
	return version, err
}
