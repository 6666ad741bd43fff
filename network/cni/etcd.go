package cni

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/linux"
)

// An Etcd runs etcd on a host, with the configuration of Flannel in it.
type Etcd struct {
	// Program is its path, or its name in PATH.
	Program string `json:"program"`
	// Address is that of the host on the underlay: there it listens to flanneld of all hosts, without a password.
	Address string `json:"address"`
	// Config is the configuration of Flannel, as JSON.
	Config string `json:"config"`
}

const (
	etcd = "etcd"
	// configKey is where flanneld looks for its configuration: option etcd-prefix of flanneld, and
	// pkg/subnet/etcd/registry.go.
	configKey = "/coreos.com/network/config"
	// startLimit is how long etcd and flanneld may take to be ready. A quarter of a second is usual.
	startLimit = 20 * time.Second
	// pause is between two looks at a program that starts.
	pause = 10 * time.Millisecond
	// grace is how long a program is given to end.
	grace = 5 * time.Second
)

// Kind returns "cni-etcd".
func (Etcd) Kind() string { return "cni-etcd" }

// String describes the step in plain words.
func (e Etcd) String() string {
	return fmt.Sprintf("etcd (%s) at %s: %s is %s", e.Program, e.endpoint(), configKey, e.Config)
}

// endpoint is where others reach it.
func (e Etcd) endpoint() string {
	return "http://" + net.JoinHostPort(e.Address, strconv.Itoa(etcdPort))
}

// Apply starts etcd, and puts the configuration into it.
func (e Etcd) Apply(ctx context.Context, k *host.Kernel) error {
	path, err := located(e.Program, store)
	if err != nil {
		return err
	}
	dir, err := k.RunDir(etcd)
	if err != nil {
		return err
	}
	// Only clients come over the underlay: it is a cluster of one.
	const peers = "http://127.0.0.1:2380"
	r, err := k.Start(host.Program{Name: etcd, Package: "etcd-server", Args: []string{
		path, "--data-dir", dir, "--listen-client-urls", e.endpoint(), "--advertise-client-urls", e.endpoint(),
		"--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers, "--initial-cluster", "default=" + peers,
	}})
	if err != nil {
		return errors.Join(err, os.RemoveAll(dir))
	}
	err = k.Keep(r.Process())
	for deadline := time.Now().Add(startLimit); err == nil; {
		if err = e.put(ctx, k); err == nil {
			return nil
		}
		if died := r.Died(); died != nil {
			err = died
		} else if time.Now().Before(deadline) && ctx.Err() == nil {
			err = nil
			time.Sleep(pause)
		} else {
			err = fmt.Errorf("etcd takes no configuration within %v: %w", startLimit, err)
		}
	}
	return errors.Join(err, e.remove(k, r.Process()))
}

// Remove ends etcd, and removes its data.
func (e Etcd) Remove(_ context.Context, k *host.Kernel) error {
	var p host.Process
	if ok, err := k.Kept(&p); !ok {
		return err
	}
	return e.remove(k, p)
}

func (Etcd) remove(k *host.Kernel, p host.Process) error {
	err := k.Stop(p, grace)
	dir, derr := k.RunDir(etcd)
	if derr == nil {
		derr = os.RemoveAll(dir)
	}
	return errors.Join(err, derr)
}

// Verify wants etcd to run, with the configuration in it.
func (e Etcd) Verify(k *host.Kernel) error {
	drift := func(d linux.Difference) error {
		return &host.DriftError{Step: e.String(), Drifts: []linux.Difference{d}}
	}
	if d := notRunning(k, etcd); d != nil {
		return drift(*d)
	}
	got, err := e.get(context.Background(), k)
	if err != nil {
		got = err.Error()
	}
	if got != e.Config {
		return drift(linux.Difference{What: configKey, Want: e.Config, Got: got})
	}
	return nil
}

// notRunning says how a program that a step has started does not run; nil: it does.
func notRunning(k *host.Kernel, name string) *linux.Difference {
	d := linux.Difference{What: "process of " + name, Want: "running", Got: linux.Absent}
	r := k.Running(name)
	if r != nil {
		died := r.Died()
		if died == nil {
			return nil
		}
		d.Got = died.Error()
	}
	return &d
}

// pair is a key of etcd and its value, which JSON has in base 64: Documentation/dev-guide/api_grpc_gateway.md of etcd
// 3.4.
type pair struct {
	Key   []byte `json:"key"`
	Value []byte `json:"value,omitempty"`
}

func (e Etcd) put(ctx context.Context, k *host.Kernel) error {
	return e.ask(ctx, k, "put", pair{Key: []byte(configKey), Value: []byte(e.Config)}, nil)
}

func (e Etcd) get(ctx context.Context, k *host.Kernel) (string, error) {
	var found struct {
		Pairs []pair `json:"kvs"`
	}
	if err := e.ask(ctx, k, "range", pair{Key: []byte(configKey)}, &found); err != nil {
		return "", err
	}
	if len(found.Pairs) != 1 {
		return linux.Absent, nil
	}
	return string(found.Pairs[0].Value), nil
}

// ask calls a method of etcd's key-value service.
func (e Etcd) ask(ctx context.Context, k *host.Kernel, method string, question, answer any) error {
	const limit = 2 * time.Second
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	data, err := json.Marshal(question)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, e.endpoint()+"/v3/kv/"+method, bytes.NewReader(data))
	if err != nil {
		return err
	}
	transport := &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, address string) (c net.Conn, err error) {
			err = k.Do("", func() (err error) {
				c, err = new(net.Dialer).DialContext(ctx, network, address)
				return err
			})
			return c, err
		},
	}
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	const most = 1 << 20 // bytes
	text, err := io.ReadAll(io.LimitReader(response.Body, most))
	switch {
	case err != nil:
		return err
	case response.StatusCode != http.StatusOK:
		return fmt.Errorf("etcd answers %s: %s", response.Status, bytes.TrimSpace(text))
	case answer == nil:
		return nil
	}
	return json.Unmarshal(text, answer)
}
