package docker

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/nettoll/nettoll/host"
	"github.com/nettoll/nettoll/internal/testnet"
)

// TestToken hands a token to the other host of a lab, and to nobody else.
func TestToken(t *testing.T) {
	const at, token = "127.0.0.1:2378", "SWMTKN-1-a-token"
	m := testnet.New(t)
	kernel := func() (k *host.Kernel) {
		t.Helper()
		if err := m.Do(func() (err error) {
			k, err = host.NewKernel(host.KernelConfig{Dir: m.Dir, Run: t.TempDir()})
			return err
		}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := k.Close(); err != nil {
				t.Error(err)
			}
		})
		return k
	}
	first, second, stranger := kernel(), kernel(), kernel()
	var up host.Stack
	if err := up.Apply(t.Context(), first, host.Plan{Steps: []host.Step{host.Link{Name: "lo", Up: true}}}); err != nil {
		t.Fatal(err)
	}
	secret := host.NewSecret()
	first.Entrust(secret)
	second.Entrust(secret)
	stranger.Entrust(host.NewSecret())

	h, err := hand(first, at, token, 1)
	if err != nil {
		t.Fatal(err)
	}
	asks, err := sealer(stranger, request)
	if err != nil {
		t.Fatal(err)
	}
	answers, err := sealer(stranger, answer)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := fetched(stranger, at, asks, answers); err == nil {
		t.Errorf("a host of another lab got %q, want an error", got)
	}
	got, err := fetch(t.Context(), second, at)
	if err != nil || got != token {
		t.Errorf("the other host got %q, %v; want %q", got, err, token)
	}
	// It was asked as often as it should: nobody listens any more, sooner or later.
	for end := time.Now().Add(handing); ; {
		err := second.Do("", func() error {
			c, err := net.Dial("tcp", at)
			if err == nil {
				_ = c.Close()
			}
			return err
		})
		if err != nil {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the first host still listens")
		}
	}
	if err := h.Close(); err != nil {
		t.Errorf("close after the end: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*again)
	defer cancel()
	if got, err := fetch(ctx, second, at); err == nil || !strings.Contains(err.Error(), at) {
		t.Errorf("without a first host: %q, %v; want an error that names %s", got, err, at)
	}
}
